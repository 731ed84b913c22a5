"""The few native functions that threads need, as LLVM text: a team that works in phases.

An entry has phases, and each phase a number of *shares*, one for each thread. All shares of a phase
must be done before the next one begins, but any thread may do any of them: a share is claimed
before it is done. Each thread claims its own first, so that data stay in its caches. A thread that
has none left claims those that no thread has begun. So no thread waits for one that is still
asleep, or that the system has preempted between two shares: at worst one thread does everything,
about as fast as if it were alone. Only a share that was begun is waited for. What is computed does
not depend on who computes it.

Phases are counted over the life of the team, from 1. ``claims[share]`` is the last phase in which
the share was claimed. A thread that comes late finds all claims ahead of its own count, and walks
through the phases that it has missed without touching anything.

A worker lives inside ``glow_team_serve``: it needs no Python lock to start a job, and a job is
posted by one native call, so no signal can come between posting it and doing it. What one thread
writes while others look at it has a cache line of its own. Written in Python the functions are::

    def take(team, thread, step, phase, share):     # step: the phase within the entry
        if not compare_and_swap(team.claims[share], phase - 1, phase):
            return False
        team.entry(team.constants, ..., thread, step, share, team.shares)
        if atomic_add(team.done, 1) + 1 == phase * team.shares:  # all shares of all phases
            team.opened = phase                     # the last one lets all go on
        return True

    def work(team, thread, job):
        grace = team.grace
        for step in range(team.phases):
            phase = (job - 1) * team.phases + step + 1
            take(team, thread, step, phase, thread)
            pauses, grace_after = 0, team.grace
            while team.opened < phase:
                if pauses >= grace and any([take(..., s) for s in range(team.shares)]):
                    pauses, grace_after = 0, 0      # who was late once is not waited for again
                elif pauses < max(grace, team.spins): pauses += pause()
                else: sched_yield()
            grace = grace_after

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
            work(team, thread, seen)

    def glow_team_post(team):                       # glow_team_run: post, then work(thread=0)
        team.job += 1
        if team.sleepers:
            with team.mutex: team.condition.notify_all()
"""

from __future__ import annotations

from enum import IntEnum

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.system.sha256 import sha256


class TeamField(IntEnum):
    """Offsets in bytes of what a team block holds, in the order in which it is explained above."""

    DONE = 0
    OPENED = CACHE_LINE_BYTES
    JOB = 2 * CACHE_LINE_BYTES
    STOPPED = 3 * CACHE_LINE_BYTES
    SLEEPERS = 4 * CACHE_LINE_BYTES
    ENTRY = 5 * CACHE_LINE_BYTES
    CONSTANTS = ENTRY + 8
    ARENA = ENTRY + 16
    BINDINGS = ENTRY + 24
    SCRATCH = ENTRY + 32
    SHARES = ENTRY + 40
    PHASES = ENTRY + 48
    GRACE = ENTRY + 56
    SPINS = 6 * CACHE_LINE_BYTES
    PATIENCE = SPINS + 8
    MUTEX = 7 * CACHE_LINE_BYTES
    CONDITION = 9 * CACHE_LINE_BYTES
    CLAIMS = 11 * CACHE_LINE_BYTES


def team_bytes(threads: int) -> int:
    """Return the size of the block of a team: the fields, and a line for each claim.

    A mutex and a condition take less than two lines each on any system.
    """
    return TeamField.CLAIMS + threads * CACHE_LINE_BYTES


WORK = """
define private i1 @take(ptr %team, i64 %thread, i64 %step, i64 %phase, i64 %share) {
start:
  %claims = getelementptr i8, ptr %team, i64 $CLAIMS
  %distance = mul i64 %share, $LINE
  %claim = getelementptr i8, ptr %claims, i64 %distance
  %before = sub i64 %phase, 1
  %seen = load atomic i64, ptr %claim monotonic, align 8
  %free = icmp eq i64 %seen, %before
  br i1 %free, label %try, label %taken
try:
  %exchange = cmpxchg ptr %claim, i64 %before, i64 %phase acq_rel monotonic
  %won = extractvalue { i64, i1 } %exchange, 1
  br i1 %won, label %mine, label %taken
mine:
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
  %shares_place = getelementptr i8, ptr %team, i64 $SHARES
  %shares = load i64, ptr %shares_place
  call void %entry(ptr %constants, ptr %arena, ptr %bindings, ptr %scratch, i64 %thread,
                   i64 %step, i64 %share, i64 %shares)
  %done_before = atomicrmw add ptr %team, i64 1 acq_rel
  %done = add i64 %done_before, 1
  %all = mul i64 %phase, %shares
  %last = icmp eq i64 %done, %all
  br i1 %last, label %open, label %made
open:
  %opened_place = getelementptr i8, ptr %team, i64 $OPENED
  store atomic i64 %phase, ptr %opened_place release, align 8
  br label %made
made:
  ret i1 true
taken:
  ret i1 false
}

define private i1 @take_any(ptr %team, i64 %thread, i64 %step, i64 %phase, i64 %shares) {
start:
  br label %next
next:
  %share = phi i64 [ 0, %start ], [ %share_after, %next ]
  %any = phi i1 [ false, %start ], [ %any_after, %next ]
  %took = call i1 @take(ptr %team, i64 %thread, i64 %step, i64 %phase, i64 %share)
  %any_after = or i1 %any, %took
  %share_after = add i64 %share, 1
  %more = icmp ult i64 %share_after, %shares
  br i1 %more, label %next, label %done
done:
  ret i1 %any_after
}

define private void @work(ptr %team, i64 %thread, i64 %job) {
start:
  %opened_place = getelementptr i8, ptr %team, i64 $OPENED
  %shares_place = getelementptr i8, ptr %team, i64 $SHARES
  %shares = load i64, ptr %shares_place
  %phases_place = getelementptr i8, ptr %team, i64 $PHASES
  %phases = load i64, ptr %phases_place
  %grace_place = getelementptr i8, ptr %team, i64 $GRACE
  %most_grace = load i64, ptr %grace_place
  %spins_place = getelementptr i8, ptr %team, i64 $SPINS
  %spins = load i64, ptr %spins_place
  %jobs_before = sub i64 %job, 1
  %first = mul i64 %jobs_before, %phases
  br label %begin
begin:
  %step = phi i64 [ 0, %start ], [ %step_after, %done ]
  %grace = phi i64 [ %most_grace, %start ], [ %grace_after, %done ]
  %step_after = add i64 %step, 1
  %phase = add i64 %first, %step_after
  %own = call i1 @take(ptr %team, i64 %thread, i64 %step, i64 %phase, i64 %thread)
  br label %look
look:
  %pauses = phi i64 [ 0, %begin ], [ %more_pauses, %pause ], [ %pauses, %yield ], [ 0, %help ]
  %grace_after = phi i64 [ %most_grace, %begin ], [ %grace_after, %pause ],
                         [ %grace_after, %yield ], [ 0, %help ]
  %now = load atomic i64, ptr %opened_place acquire, align 8
  %open = icmp uge i64 %now, %phase
  br i1 %open, label %done, label %closed
closed:
  %more_pauses = add i64 %pauses, 1
  %in_grace = icmp ult i64 %pauses, %grace
  br i1 %in_grace, label %pause, label %help
help:
  %helped = call i1 @take_any(ptr %team, i64 %thread, i64 %step, i64 %phase, i64 %shares)
  br i1 %helped, label %look, label %wait
wait:
  %spinning = icmp ult i64 %pauses, %spins
  br i1 %spinning, label %pause, label %yield
pause:
  $PAUSE
  br label %look
yield:
  %ignored = call i32 @sched_yield()
  br label %look
done:
  %more = icmp ult i64 %step_after, %phases
  br i1 %more, label %begin, label %end
end:
  ret void
}
declare i32 @sched_yield()
"""

TEAM = """
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
  call void @work(ptr %team, i64 %thread, i64 %job)
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
  %job_place = getelementptr i8, ptr %team, i64 $JOB
  %job = load i64, ptr %job_place
  call void @work(ptr %team, i64 0, i64 %job)
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

RUNTIME = "glow_runtime"
"""The name of the object in the cache; it is the same for all programs."""

RUNTIME_DIGEST = sha256(f"{WORK}{TEAM}{list(TeamField)}".encode()).hexdigest()[:20]
"""What a team block and the entry look like: code that was made with another does not fit."""
