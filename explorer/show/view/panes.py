"""What each pane of the viewer shows, in a few sentences: the record brings it along (RecordData.panes)."""

from __future__ import annotations

from explorer.ir.record import PaneData

PANES = {
    "source": PaneData(
        text=(
            "The Python that was compiled: every line that became part of a graph, with the functions that were "
            "called along the way, in the order of their first call, libraries' after yours. A line's colour is "
            "the colour of all that it caused, in every pane. In the margin: ⤶ where the graph breaks, ⛨ and how "
            "many guards come from the line (if asked for), and a bar for the kernels' measured time. A kernel "
            "often serves several lines: ≤38 % means that all of it is shared, 20–58 % that 20 % is the line's "
            "own."
        ),
        paper="TorchDynamo captures graphs from Python bytecode, so that the source needs no changes (section 3).",
        stock='Stack traces in node.meta["stack_trace"]; TORCH_LOGS="graph_breaks,guards" for the marks.',
    ),
    "bytecode": PaneData(
        text=(
            "The instructions of the function, in a set that is the same for all versions of Python; what runs "
            "instead once the graph is compiled; what goes on after a graph break; and what was inlined. The "
            "slider walks through the symbolic evaluation; ◀ and ▶ go by what is chosen beside them; its letter "
            "does, too, and as a capital letter goes back. A breakpoint is a query, such as: op:CALL line:12 "
            "guard:size depth>1 top:tensor"
        ),
        paper="Symbolic evaluation and code generation of TorchDynamo (sections 3.2, 3.4 and 3.8).",
        stock='torch/_dynamo/symbolic_convert.py, InstructionTranslator; TORCH_LOGS="bytecode,trace_bytecode".',
    ),
    "breaks": PaneData(
        text=(
            "The places where one graph had to end, because what comes next cannot be part of it: each with its "
            "reason, what one can do about it, and the function that goes on behind it, which is captured anew. "
            "Errors and recompiles stand above, each with the program's line; below is what ran in plain Python."
        ),
        paper="Graph breaks and resume functions of TorchDynamo (section 3.8).",
        stock='torch._dynamo.explain(f)(x); TORCH_LOGS="graph_breaks".',
    ),
    "guards": PaneData(
        text=(
            "What the compiled code assumes about its inputs and about the world. Each is checked before the code "
            "is used; a call that breaks one is recompiled, or finds an earlier compile that accepts it. Try "
            "another call in the form to see every guard that it would break: nothing is run and no tensor is "
            "made. What only the running process knows, such as which object something is, is listed as not "
            "decided here."
        ),
        paper="Guards (section 3.3); recompilation and dynamic shapes (section 5)",
        stock="torch/_dynamo/guards.py; TORCH_LOGS=guards,recompiles; torch._dynamo.config.recompile_limit",
    ),
    "recompiles": PaneData(
        text=(
            "The calls of each function that was compiled more than once, in order: the compiles that served a "
            "call and, where it was compiled again, the guards that failed, the line that made each, and what "
            "would keep it from failing. Calls are counted where the program was watched (%%explore of a cell "
            "that compiles functions itself, explorer.watch); elsewhere the compiles stand alone."
        ),
        paper="Guards (section 3.3); dynamic shapes (section 5)",
        stock="TORCH_LOGS=recompiles, torch._dynamo.config.recompile_limit",
    ),
    "graphs": PaneData(
        text=(
            "The program as a graph of operations, top to bottom: as it was captured from bytecode, traced to "
            "ATen operations with its backward, after each pass, and cut into a forward and a backward half. "
            "Boxes are nodes, or groups of them by module or by the kernel that they ended in; a double click "
            "opens and closes a group. Signs mark what a pass added (+), removed (−) and changed (~), and what is "
            "saved (●) for the backward or recomputed there (↻). Nothing moves from pass to pass, so that what "
            "changes can be seen."
        ),
        paper="The FX graph of TorchDynamo (section 3), AOTAutograd's joint graph and its partition (section 3.9).",
        stock=(
            "torch.fx.Graph; torch/_functorch/aot_autograd.py, partitioners.py; "
            'TORCH_LOGS="graph_code,aot_joint_graph,aot_graphs".'
        ),
    ),
    "schedule": PaneData(
        text=(
            "Each operation of the graph became a loop or a library call. Loops that are worth joining run as one "
            "kernel, so that what one computes is used by the next without a trip through memory. The drawing "
            "shows the steps in the order in which they run and the buffers that flow between them; below it "
            "stands, for any two operations, why they are or are not in one kernel."
        ),
        paper=(
            "Scheduling and fusion (section 4.4): every pair of nodes that may be fused is scored by the memory "
            "traffic it saves."
        ),
        stock=(
            "torch/_inductor/scheduler.py: Scheduler.fuse_nodes, can_fuse, score_fusion; TORCH_LOGS=fusion prints "
            "refusals"
        ),
    ),
    "memory": PaneData(
        text=(
            "Each buffer that the program makes, from the step that first writes it to the last that needs it. "
            "Buffers that are never alive at the same time share bytes of one pool; some overwrite a buffer that "
            "is not needed again. The curves count the bytes in use at each step: with memory of its own for each "
            "buffer, and as planned. Inputs are the caller's and not counted."
        ),
        paper="Memory planning, a part of scheduling (section 4.4)",
        stock=(
            "torch/_inductor/codegen/wrapper.py (MemoryPlanningState), codegen/memory_planning.py; "
            "config.memory_planning"
        ),
    ),
    "code": PaneData(
        text=(
            "The generated kernels, the wrapper that allocates memory and calls them, and what the compilers "
            "below made of each kernel, down to machine code. Every line has the colour of the source line that "
            "caused it; lines without one say why. Above the code is the exact command that built it. A second "
            "code pane beside this one shows two levels at once."
        ),
        paper="TorchInductor's code generation: Triton, C++/OpenMP, and the wrapper (sections 4.5, 4.6 and 4.7).",
        stock='torch/_inductor/codegen/; TORCH_LOGS="output_code,kernel_code", files under /tmp/torchinductor_USER.',
    ),
    "timing": PaneData(
        text=(
            "Whole calls of eager, of this compiler and of stock torch.compile, taken in turn so that a machine "
            "whose speed drifts is unfair to none; each dot is a sample. Then each kernel by itself: its time, "
            "what it moves and computes, and how near that comes to the machine's measured peaks. The time that "
            "no kernel takes is told apart."
        ),
        paper="TorchInductor speedups (section 6.3): speedup over eager, here with its spread",
        stock="torch.utils.benchmark, TORCHINDUCTOR_PROFILE=1 (bandwidth of each kernel), torch.profiler",
    ),
    "values": PaneData(
        text=(
            "One call, run kernel by kernel: what each kernel and library call wrote, beside what eager operators "
            "compute for the same node of the graph. The first NaN and the first difference are one key away. "
            "Recorded where values=True (%%explore --values) asks for it, and where results differ from eager. A "
            "breakpoint is a query, such as: kernel=k0 error>0.001"
        ),
        paper="",
        stock=(
            "torch.utils._debug_mode.DebugMode; TORCHINDUCTOR_DUMP_LAUNCH_PARAMS; the accuracy minifier "
            "(TORCHDYNAMO_REPRO_LEVEL=4)"
        ),
    ),
    "timeline": PaneData(
        text=(
            "Compile time by stage: each compile of the record as a bar, its stages below it, and below those "
            "what ran inside them. Click a stage to look at it in all panes; zoom in on what is too short to "
            "read."
        ),
        paper="What is done to compile a frame (section 3.2); dynamic shapes save compile time (section 5.2).",
        stock="TORCH_LOGS=compilation_metrics, torch._dynamo.utils.compile_times(), tlparse's Chrome trace",
    ),
    "text": PaneData(
        text=(
            "What the selected stage made, in full, as text. Each line has the colour of the source line that "
            "caused it; a line with a double edge has several. Walk the stages with the arrow keys to see the "
            "program change; a pass over a graph can be shown as what it changed in the graph before, and walked "
            "through rewrite by rewrite; lowering node by node. A breakpoint is a query, such as: pass:casts "
            "replaced:"
        ),
        paper="The FX graph (section 3.4), the loop-level IR (section 4.3), the code made of it (sections 4.5 to 4.7).",
        stock='TORCH_LOGS="graph_code,aot_graphs,schedule,output_code" prints some of these, one kind at a time.',
    ),
    "diff": PaneData(
        text=(
            "Two compiles, stage by stage: the one that is selected, and another one of this record (a recompile, "
            "the other engine's) or one of a record from a file. Stages whose texts differ are marked. Lines keep "
            "the colour of their source line, the same on both sides, and what is selected on one side is lit up "
            "on the other."
        ),
        paper="",
        stock="Comparing the directories of two runs with TORCH_TRACE by hand; tlparse shows one run.",
    ),
}
