"""What the documentation's site is made of beside its pages: generated parts, notebooks, links.

``make docs`` builds the site with MkDocs, which calls :mod:`website.hooks`. A page of ``docs/`` has
a generated part between two comments, ``<!-- generated: NAME -->`` and ``<!-- end -->``;
``python -m website NAME`` prints it.
"""
