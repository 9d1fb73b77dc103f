"""Code object <-> `ir.bytecode.Code`: one normalised instruction set, so that nothing else branches on the version."""
