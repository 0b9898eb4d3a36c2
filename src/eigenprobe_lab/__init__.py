"""The laboratory beside the library: it measures, reproduces the paper and makes the shipped
models.

    paper/        the paper's experiments, protocols, peers, published numbers, image data
    evaluation/   samples, measures, reports, the virtual scanner
    shapes/       procedural shapes, contacts, dense clouds
    factory/      training of the shipped networks, learned probes
    cli/          commands that `eigenprobe` finds by entry points

It imports `eigenprobe`, never the other way.
"""
