"""Many threads that begin at one moment."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

COUNT = 16


def at_once(function, arguments=range(COUNT)):
    """Results of ``function`` for each argument, in a thread of its own; raises what the first of them raised."""
    begin = Barrier(len(arguments))

    def run(argument):
        begin.wait()
        return function(argument)

    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(run, arguments))
