"""The grammar of expressions: a subset of CEL, with its precedence.

The terminals are those of tokens.py, and each rule has a method of that name in syntax.py. Chains are lists, so that a
long one is not a deep one.
"""

from typing import Final

GRAMMAR: Final = """
?start: expression

?expression: disjunction
    | (disjunction _QUESTION disjunction _COLON)+ disjunction  -> choice
?disjunction: conjunction | conjunction (_OR conjunction)+  -> any
?conjunction: relation | relation (_AND relation)+  -> all
?relation: sum | sum ((RELATION | IN) sum)+  -> operations
?sum: product | product ((PLUS | MINUS) product)+  -> operations
?product: unary | unary (TIMES unary)+  -> operations
?unary: member
    | NOT+ member  -> prefixed
    | MINUS+ member  -> prefixed
?member: primary
    | member _DOT WORD  -> dot
    | member _DOT WORD LPAR [arguments] RPAR  -> method
    | member LSQB expression RSQB  -> index
?primary: NAME  -> name
    | NAME LPAR [arguments] RPAR  -> call
    | LPAR expression RPAR  -> group
    | LSQB (expression _COMMA)* expression? RSQB  -> listed
    | (TEXT | WHOLE | DECIMAL | TRUE | FALSE | NULL)  -> literal
arguments: expression (_COMMA expression)*

%declare NAME WORD TEXT WHOLE DECIMAL TRUE FALSE NULL
%declare NOT MINUS PLUS TIMES RELATION IN LPAR RPAR LSQB RSQB
%declare _AND _OR _QUESTION _COLON _DOT _COMMA
"""
