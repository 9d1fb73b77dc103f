# Run by IPython as a kernel starts: the compiler is imported before the first cell asks for it, and what checks puzzles
# is forked before there is anything of a person's own to share.
import explorer
import explorer.course.process

explorer.explore  # noqa: B018, imported on first access
explorer.course.process.warm_by_fork()
del explorer
