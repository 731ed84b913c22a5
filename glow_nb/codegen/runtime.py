"""The few native functions that threads need, as LLVM text: a barrier and a team.

A *sync* block holds three words, each in its own cache line: how many threads have arrived at the
barrier, the turn (how often it has opened), and how long to spin before yielding. A *team* block is
a sync block and behind it the present job, and how long a worker without one spins before it
sleeps. Workers live inside ``glow_team_serve``: they need no Python lock to start a job, and a job
is posted by one native call, so no signal can come between waking the workers and joining them.
Written in Python the three functions would be::

    def glow_barrier(sync, threads):
        if threads < 2: return
        turn = sync.turn
        if atomic_add(sync.arrived, 1) + 1 == threads:   # the last one opens it for all
            sync.arrived = 0
            sync.turn = turn + 1
        else:
            spin_while(sync.turn == turn, sync.spins)    # first by pausing, then by sched_yield

    def glow_team_serve(team, thread):
        seen = 0
        while True:
            spin_while(team.job == seen, team.patience)
            with team.mutex:
                team.sleepers += 1
                while team.job == seen: team.condition.wait()
                team.sleepers -= 1
            seen = team.job
            if team.stopped: return
            team.entry(team.constants, ..., thread, team.threads, team)

    def glow_team_post(team):            # glow_team_run: post, then entry(..., thread=0, ...)
        team.job += 1
        if team.sleepers:
            with team.mutex: team.condition.notify_all()
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from functools import lru_cache
from string import Template

import llvmlite.binding as llvm

from glow_nb.alignment import CACHE_LINE_BYTES
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target


class TeamField(IntEnum):
    """Offsets in bytes of what a team block holds; the first three are those of a sync block.

    What one thread writes while others look at it has a cache line of its own. The address of the
    entry is followed by its arguments, but for the thread and the team itself.
    """

    ARRIVED = 0
    TURN = CACHE_LINE_BYTES
    SPINS = 2 * CACHE_LINE_BYTES
    JOB = 3 * CACHE_LINE_BYTES
    STOPPED = 4 * CACHE_LINE_BYTES
    SLEEPERS = 5 * CACHE_LINE_BYTES
    ENTRY = 6 * CACHE_LINE_BYTES
    CONSTANTS = ENTRY + 8
    ARENA = ENTRY + 16
    BINDINGS = ENTRY + 24
    SCRATCH = ENTRY + 32
    THREADS = ENTRY + 40
    PATIENCE = ENTRY + 48
    MUTEX = 9 * CACHE_LINE_BYTES
    CONDITION = 11 * CACHE_LINE_BYTES


TEAM_BYTES = 13 * CACHE_LINE_BYTES
"""Size of a team block. A mutex and a condition take less than two lines each on any system."""

_BARRIER = """
define void @glow_barrier(ptr %sync, i64 %threads) {
start:
  %alone = icmp ult i64 %threads, 2
  br i1 %alone, label %done, label %arrive
arrive:
  %turn_place = getelementptr i8, ptr %sync, i64 $TURN
  %turn = load atomic i64, ptr %turn_place acquire, align 8
  %before = atomicrmw add ptr %sync, i64 1 acq_rel
  %arrived = add i64 %before, 1
  %last = icmp eq i64 %arrived, %threads
  br i1 %last, label %open, label %closed
open:
  store atomic i64 0, ptr %sync monotonic, align 8
  %next = add i64 %turn, 1
  store atomic i64 %next, ptr %turn_place release, align 8
  br label %done
closed:
  %spins_place = getelementptr i8, ptr %sync, i64 $SPINS
  %spins = load i64, ptr %spins_place
  br label %spin
spin:
  %left = phi i64 [ %spins, %closed ], [ %less, %pause ], [ 0, %yield ]
  %now = load atomic i64, ptr %turn_place acquire, align 8
  %same = icmp eq i64 %now, %turn
  br i1 %same, label %wait, label %done
wait:
  %patient = icmp ne i64 %left, 0
  br i1 %patient, label %pause, label %yield
pause:
  $PAUSE
  %less = sub i64 %left, 1
  br label %spin
yield:
  %ignored = call i32 @sched_yield()
  br label %spin
done:
  ret void
}
declare i32 @sched_yield()
"""

_TEAM = """
define private void @run_entry(ptr %team, i64 %thread) {
  %entry_place = getelementptr i8, ptr %team, i64 $ENTRY
  %entry = load ptr, ptr %entry_place
  %constants_place = getelementptr i8, ptr %team, i64 $CONSTANTS
  %constants = load ptr, ptr %constants_place
  %arena_place = getelementptr i8, ptr %team, i64 $ARENA
  %arena = load ptr, ptr %arena_place
  %bindings_place = getelementptr i8, ptr %team, i64 $BINDINGS
  %bindings = load ptr, ptr %bindings_place
  %scratch_place = getelementptr i8, ptr %team, i64 $SCRATCH
  %scratch = load ptr, ptr %scratch_place
  %threads_place = getelementptr i8, ptr %team, i64 $THREADS
  %threads = load i64, ptr %threads_place
  call void %entry(ptr %constants, ptr %arena, ptr %bindings, ptr %scratch, i64 %thread,
                   i64 %threads, ptr %team)
  ret void
}

define void @glow_team_prepare(ptr %team) {
  %mutex = getelementptr i8, ptr %team, i64 $MUTEX
  %condition = getelementptr i8, ptr %team, i64 $CONDITION
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}

define void @glow_team_serve(ptr %team, i64 %thread) {
start:
  %job_place = getelementptr i8, ptr %team, i64 $JOB
  %stopped_place = getelementptr i8, ptr %team, i64 $STOPPED
  %sleepers_place = getelementptr i8, ptr %team, i64 $SLEEPERS
  %mutex = getelementptr i8, ptr %team, i64 $MUTEX
  %condition = getelementptr i8, ptr %team, i64 $CONDITION
  %patience_place = getelementptr i8, ptr %team, i64 $PATIENCE
  br label %idle
idle:
  %seen = phi i64 [ 0, %start ], [ %job, %work ]
  %patience = load i64, ptr %patience_place
  br label %look
look:
  %left = phi i64 [ %patience, %idle ], [ %less, %pause ]
  %early = load atomic i64, ptr %job_place acquire, align 8
  %nothing = icmp eq i64 %early, %seen
  br i1 %nothing, label %impatient, label %awake
impatient:
  %patient = icmp ne i64 %left, 0
  br i1 %patient, label %pause, label %lie_down
pause:
  $PAUSE
  %less = sub i64 %left, 1
  br label %look
lie_down:
  %c = call i32 @pthread_mutex_lock(ptr %mutex)
  %d = atomicrmw add ptr %sleepers_place, i64 1 seq_cst
  br label %doze
doze:
  %late = load atomic i64, ptr %job_place seq_cst, align 8
  %still = icmp eq i64 %late, %seen
  br i1 %still, label %sleep, label %rise
sleep:
  %e = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %doze
rise:
  %f = atomicrmw sub ptr %sleepers_place, i64 1 seq_cst
  %g = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %awake
awake:
  %job = load atomic i64, ptr %job_place acquire, align 8
  %stopped = load atomic i64, ptr %stopped_place acquire, align 8
  %stop = icmp ne i64 %stopped, 0
  br i1 %stop, label %done, label %work
work:
  call void @run_entry(ptr %team, i64 %thread)
  br label %idle
done:
  ret void
}

define void @glow_team_post(ptr %team) {
  %job_place = getelementptr i8, ptr %team, i64 $JOB
  %h = atomicrmw add ptr %job_place, i64 1 seq_cst
  %sleepers_place = getelementptr i8, ptr %team, i64 $SLEEPERS
  %sleepers = load atomic i64, ptr %sleepers_place seq_cst, align 8
  %awake = icmp eq i64 %sleepers, 0
  br i1 %awake, label %done, label %wake
wake:
  %mutex = getelementptr i8, ptr %team, i64 $MUTEX
  %condition = getelementptr i8, ptr %team, i64 $CONDITION
  %k = call i32 @pthread_mutex_lock(ptr %mutex)
  %l = call i32 @pthread_cond_broadcast(ptr %condition)
  %m = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}

define void @glow_team_run(ptr %team) {
  call void @glow_team_post(ptr %team)
  call void @run_entry(ptr %team, i64 0)
  ret void
}

define void @glow_team_stop(ptr %team) {
  %stopped_place = getelementptr i8, ptr %team, i64 $STOPPED
  store atomic i64 1, ptr %stopped_place release, align 8
  call void @glow_team_post(ptr %team)
  ret void
}

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
"""

_PAUSES = {
    "x86_64": ("@llvm.x86.sse2.pause", "", ""),
    "aarch64": ("@llvm.aarch64.hint", "i32", "i32 1"),
    "arm64": ("@llvm.aarch64.hint", "i32", "i32 1"),
}
"""Name, parameter type and argument of the instruction that tells a core it only waits."""


RUNTIME = "glow_runtime"
"""The name of the object in the cache; it is the same for all programs."""

RUNTIME_DIGEST = hashlib.sha256(f"{_BARRIER}{_TEAM}{list(TeamField)}".encode()).hexdigest()[:20]
"""What a team block and the entry look like: code that was made with another does not fit."""


@lru_cache(maxsize=4)
def compile_runtime(target: Target) -> bytes:
    """Return the object that defines the functions above."""
    architecture = target.triple.split("-")[0]
    name, parameter, argument = _PAUSES.get(architecture, ("", "", ""))
    text = Template(_BARRIER + _TEAM).substitute(
        {field.name: field.value for field in TeamField},
        PAUSE=f"call void {name}({argument})" if name else "",
    )
    text += f"declare void {name}({parameter})\n" if name else ""
    machine = target_machine(target)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    payload: bytes = machine.emit_object(module)
    return payload
