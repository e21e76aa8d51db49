"""From what people write to the nodes of `bridge.language.ir`. Nothing is evaluated here but literals.

parse.py    `when:` and `${...}`: tokens.py, grammar.py and syntax.py give a tree; lowering.py, forms.py, calling.py,
            operators.py and scope.py make nodes of it; mistakes.py says what is wrong where the grammar stops
match.py    `match:` blocks; operations.py: their operators
checks.py   what can be known to be wrong before any event is seen
"""
