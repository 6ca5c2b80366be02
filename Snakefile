# The workflow is workflow/Snakefile; here it is where one looks for it first.
include: "workflow/Snakefile"


rule default:
    default_target: True
    input:
        rules.all.input,
