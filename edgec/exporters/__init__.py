"""Packages for other build systems, made from a model's generated C.

`edgec/exporters/formats.py` lists them. What a package contains beside the C files is a folder of
templates, `templates/export/<format>/`; the C files are the same bytes in every package.
"""
