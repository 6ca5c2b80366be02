rule profile:
    input:
        PLAN.profiled(),
