"""The language of conditions and expressions: what there is to say, what it means, and how it is evaluated. Pure.

ir.py           the nodes that `match:` and `when:` lower to; functions.py: the functions that there are
values.py       what values are, and what comparing them means; calls.py, numbers.py, times.py: computing with them
interpreter.py  evaluates a node, and tells what it saw (trace.py)
view.py         one event as expressions see it
text.py         a node as the text that it could have been written as
reading/        from what people write to nodes, with every problem at its place
"""
