"""Packages for other build systems, made from a model's generated C.

`edgec/exporters/formats.py` lists the formats. A package's other files come from templates,
`templates/export/<format>/`; the C files have the same bytes in every package.
"""
