"""What users hold: compiled networks, their variants, reports and files.

It imports `backends`, `formats` and what stands below those.
"""
