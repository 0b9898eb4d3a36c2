"""Files and other libraries' objects to arrays: meshes, scans, text, tables."""
