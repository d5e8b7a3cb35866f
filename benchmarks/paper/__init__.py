"""The tables and figures of the SENSE paper (arXiv 2606.00021) in its layout, as pure functions of result files.

`runs` and `compact` read what runs left behind; `cells`, `table` and `render` say what a table is and write it; each
other module holds one family of tables and figures, and `items` names them all.
"""
