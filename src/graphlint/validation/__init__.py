"""The validation suite: shows every hazard, and proves every rewrite, on a real GPU.

    cases       reads fixtures: what is run, and what it has to show
    child       one process, one variant of one case: runs it, watches it, writes down what it saw
    watch       replaces `torch.cuda.CUDAGraph` by a graph whose pointers are audited before each replay
    pointers    reads every device address that a captured graph holds
    probe       what a fixture's `observe(probe)` is handed
    runner      starts the children, many at a time, and keeps their ends apart
    verdict     compares what a child saw with what the fixture declares
    rewriting   the codemod's text for a case, made now
    outcome     the suite's result as data, and as JUnit and JSON
    page        the result as one HTML page
    record      the results of real runs as kept in docs/validation, and what of them still holds
    tables      the record as tables in Markdown
    rulepages   the line of a rule's page that says where its cases were observed
    standin     a torch without a GPU: runs the same fixtures and leaves a trace of effects
    judge       says whether such a trace is hazardous
    measures    what the audit of pointers finds and takes
    others      what other tools report on the same programs
    campaign    both, put into the record
    command     `graphlint validate`

Nothing here is imported by the rest of graphlint, and only `child`'s process imports torch.
"""
