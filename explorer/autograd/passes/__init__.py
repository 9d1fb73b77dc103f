"""Clean-up passes over traced graphs: each a pure function from graph to graph with one idea."""
