"""Tables of the page: rows of the analysis as cells with a text, a value to sort by, and marks.

Each column is declared once (:class:`.cells.Column`): its title, the field that it reads, and how the field is shown.
"""
