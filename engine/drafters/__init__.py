"""What proposes tokens for the model to check, and how many are worth checking.

`base` is what a drafter is; `ngram` and `dspark` are drafters, and `select` gives a model its own.
`cost` chooses how long a draft is, from what `measure` found out and `estimate` learns; `rest` is
for drafters that don't earn their time; `figures` tells people how it goes.
"""
