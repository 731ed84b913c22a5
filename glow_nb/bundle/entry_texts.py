"""LLVM text of the functions that C calls; ``$NAME`` is filled in for each bundle."""

CHECKS = """
define internal i1 @${NAME}.misaligned(ptr %a, ptr %b, ptr %c) {
  %x = ptrtoint ptr %a to i64
  %y = ptrtoint ptr %b to i64
  %z = ptrtoint ptr %c to i64
  %xy = or i64 %x, %y
  %xyz = or i64 %xy, %z
  %rest = and i64 %xyz, 63
  %odd = icmp ne i64 %rest, 0
  %no_x = icmp eq i64 %x, 0
  %no_y = icmp eq i64 %y, 0
  %no_z = icmp eq i64 %z, 0
  %no_xy = or i1 %no_x, %no_y
  %no = or i1 %no_xy, %no_z
  %bad = or i1 %odd, %no
  ret i1 %bad
}

define internal i64 @${NAME}.variant_in(ptr %tensors) {
  %word = load i64, ptr %tensors
  %number = and i64 %word, $LOW
  %rest = xor i64 %word, %number
  %ours = icmp eq i64 %rest, $IDENTITY
  %known = icmp ult i64 %number, $VARIANTS
  %good = and i1 %ours, %known
  %found = select i1 %good, i64 %number, i64 -1
  ret i64 %found
}

define internal i32 @${NAME}.unable(i64 %number) { ; why no variant was chosen
  %refused = icmp eq i64 %number, $TILES_NOT_GIVEN
  %code = select i1 %refused, i32 $TILES_REFUSED, i32 $WRONG_PROCESSOR
  ret i32 %code
}
"""

INITIALIZE = """
define i32 @${NAME}_initialize(ptr %constants, ptr %tensors) {
start:
  %bad = call i1 @${NAME}.misaligned(ptr %constants, ptr %tensors, ptr %tensors)
  br i1 %bad, label %misaligned, label %aligned
misaligned:
  ret i32 $MISALIGNED
aligned:
  %place = getelementptr i8, ptr %constants, i64 $IDENTITY_OFFSET
  %identity = load i64, ptr %place
  %ours = icmp eq i64 %identity, $IDENTITY
  br i1 %ours, label %choose, label %strange
strange:
  ret i32 $WRONG_CONSTANTS
choose:
  %number = call i64 @${NAME}.choose()
  %none = icmp slt i64 %number, 0
  br i1 %none, label %unable, label %fill
unable:
  %why = call i32 @${NAME}.unable(i64 %number)
  ret i32 %why
fill:
$COPIES
  %word = or i64 %number, $IDENTITY
  store i64 %word, ptr %tensors
  ret i32 0
}

define ptr @${NAME}_variant() {
  %number = call i64 @${NAME}.choose()
  switch i64 %number, label %none [ $NAME_CASES ]
none:
  ret ptr null
$NAME_RETURNS
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

_REFUSE_BAD = """
start:
$BAD
  br i1 %bad, label %misaligned, label %aligned
misaligned:
  ret i32 $MISALIGNED
aligned:
"""

_CHOOSE = """
  %number = call i64 @${NAME}.variant_in(ptr %tensors)
  switch i64 %number, label %none [ $CASES ]
none:
  ret i32 $NOT_INITIALIZED
"""

FUNCTION = f"""
define i32 @$FUNCTION($GIVEN) {{{_REFUSE_BAD}{_CHOOSE}$RUNS
}}

define i32 @${{FUNCTION}}_share($GIVEN, i64 %thread, i64 %phase, i64 %share) {{{_REFUSE_BAD}
  %is_thread = icmp ult i64 %thread, $THREADS
  br i1 %is_thread, label %choose, label %nobody
nobody:
  ret i32 $NO_SUCH_SHARE
choose:{_CHOOSE}$STEPS
}}
"""

VARIANT = """
define internal void @${WORK}.step(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena,
                                 i64 %thread, i64 %phase, i64 %share) {
start:
$AREA
$FED
  %own_phase = sub i64 %phase, $LEAD
  %is_phase = icmp ult i64 %own_phase, $PHASES
  %is_share = icmp ult i64 %share, $SHARES
  %is_work = and i1 %is_phase, %is_share
  br i1 %is_work, label %work, label %done
work:
  %own = getelementptr i8, ptr %constants, i64 $CONSTANTS
$SCRATCH
  call void @$ENTRY(ptr %own, ptr %arena, ptr %bindings, ptr %scratch, i64 %thread,
                    i64 %own_phase, i64 %share, i64 $SHARES)
  br label %done
done:
  ret void
}

define internal void @${WORK}.bind(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena) {
$AREA
$BIND
  ret void
}

define internal i32 @${WORK}.run($GIVEN) {
start:
  %bindings = alloca [$BINDINGS x ptr], align 16
$READY_TO_RUN
bind:
  call void @${WORK}.bind(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena)
  br label %phase
phase:
  %number = phi i64 [ 0, %bind ], [ %next, %after ]
  br label %share
share:
  %part = phi i64 [ 0, %phase ], [ %following, %share ]
  call void @${WORK}.step(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena, i64 0,
                        i64 %number, i64 %part)
  %following = add i64 %part, 1
  %more = icmp ult i64 %following, $SHARES
  br i1 %more, label %share, label %after
after:
  %next = add i64 %number, 1
  %again = icmp ult i64 %next, $ALL_PHASES
  br i1 %again, label %phase, label %end
end:
  ret i32 0
}

define internal i32 @${WORK}.part($GIVEN, i64 %thread, i64 %phase, i64 %share) {
start:
  %bindings = alloca [$BINDINGS x ptr], align 16
$READY
bind:
  call void @${WORK}.bind(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena)
  call void @${WORK}.step(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena, i64 %thread,
                        i64 %phase, i64 %share)
  ret i32 0
}
"""

BAD = "  %bad = call i1 @${NAME}.misaligned(ptr %constants, ptr %tensors, ptr %arena)"
BAD_OR_NO_SIZES = """
  %bad_block = call i1 @${NAME}.misaligned(ptr %constants, ptr %tensors, ptr %arena)
  %bad_sizes = call i1 @${NAME}.no_sizes(ptr %sizes)
  %bad = or i1 %bad_block, %bad_sizes
"""

READY = """
  %ready = call i32 @${WORK}.ready(ptr %tensors, ptr %sizes, i64 $PHASE, i64 $SHARE)
  %goes_on = icmp eq i32 %ready, 0
  br i1 %goes_on, label %bind, label %stop
stop:
  %is_code = icmp sgt i32 %ready, 0
  %code = select i1 %is_code, i32 %ready, i32 0
  ret i32 %code
"""

COPY_FED = """  %is_first = icmp eq i64 %phase, 0
  br i1 %is_first, label %feed, label %later
feed:
  %is_one = icmp eq i64 %share, 0
  br i1 %is_one, label %copy, label %done
copy:
$COPIES
  br label %done
later:"""
