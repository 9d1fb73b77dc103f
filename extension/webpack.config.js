const { rspack } = require("@rspack/core");

// What jupyter-builder adds to its own settings: what the plugins and the renderer share is there once, however small;
// and scripts are for the browsers that bundle.mjs is for. No function of ours but a class is called with `new`.
const minimizerOptions = { ecma: 2022, compress: { ecma: 2022, passes: 3, unsafe_arrows: true, unsafe_methods: true } };
module.exports = { optimization: { splitChunks: { minSize: 0 }, minimizer: [new rspack.SwcJsMinimizerRspackPlugin({ minimizerOptions })] } };
