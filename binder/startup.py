# Run by IPython as a kernel starts: the compiler is imported before the first cell asks for it.
import explorer
import explorer.course

explorer.explore  # noqa: B018, imported on first access
del explorer
