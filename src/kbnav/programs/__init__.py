"""Programs that rank nodes, written by a model: what they are, what they may call, and where they run.

The paper is Agent Retrieval on Textual and Relational Knowledge Bases, sections 3 and A.5 (Agent Retriever). How the
parts fit together::

    program = Program.read(source)                       # program.py; raises BadProgram with the lines
    api = Api(kb, model=calls)                           # api/; what a program may call; api.prompt tells a writer
    parts = open_parts(kb, settings)                     # sandbox.py; parts.first(query, None): 200 candidates
    with Sandbox() as sandbox:                           # sandbox.py
        problems = sandbox.check(program, api)           # found before anything runs, with lines
        outcome = sandbox.run(program, query, candidates, api)
    outcome.ok, outcome.scores, outcome.error, outcome.debug, outcome.calls, outcome.usage

``Sandbox.run`` raises nothing for what a program does: the ``Outcome`` has its ``error``. What ends every run, such as
a model's key that is refused, is raised (``StopRun``). A sandbox and an ``Api`` are used by several threads at once.
The answers to a query are never given to any of these.
"""
