"""Code object <-> `ir.bytecode.Code`: one normalized instruction set, so that nothing else branches on the version."""
