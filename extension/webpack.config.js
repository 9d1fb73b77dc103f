// What jupyter-builder adds to its own settings: what the plugins and the renderer share is there once, however small.
module.exports = { optimization: { splitChunks: { minSize: 0 } } };
