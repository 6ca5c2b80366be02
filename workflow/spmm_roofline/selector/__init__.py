"""The selector: which kernel is fastest for a matrix, predicted from structure and ceilings without measuring.

The library half needs NumPy and SciPy alone. :mod:`.terms` turns the structure of A into times at the ceilings,
:mod:`.correction` learns what their sum leaves over, :mod:`.model` predicts with both, :mod:`.document` is the stored
form, :mod:`.question` and :mod:`.advice` answer a user, and :mod:`.words` says the answer. The training half works on
pandas tables: :mod:`.training` fits a model and :mod:`.validation` predicts what was held out of the training.
"""
