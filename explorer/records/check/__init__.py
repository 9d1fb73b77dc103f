"""Oracles: any artifact run eagerly, verifiers, replay."""
