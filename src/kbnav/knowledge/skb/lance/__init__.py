"""An SKB in tables of LanceDB: in a folder, or on an object store that many machines read."""
