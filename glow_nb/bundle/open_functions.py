"""The functions of a bundle with open sizes that measure and lay out its memory, as LLVM text.

A layout stays in the block of tensors until other sizes come. Activations are placed as
:meth:`glow_nb.base.placement_order.PlacementOrder.at` places them: in the same order, each at the
lowest place where none of those that live with it is in the way.
"""

from __future__ import annotations

from glow_nb.base.placement_order import PlacementOrder
from glow_nb.bundle.area import Area
from glow_nb.bundle.codes import MISALIGNED, NOT_INITIALIZED, TOO_SMALL
from glow_nb.bundle.filled import filled
from glow_nb.bundle.open_layout import layout_lines, range_lines, same_lines, tensor_lines
from glow_nb.bundle.plan import Bundle, BundledFunction
from glow_nb.bundle.size_values import arithmetic_text
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.run_layout import LARGEST_RUN_BYTES

_COMMON = """
define internal i1 @${NAME}.no_sizes(ptr %sizes) {
  %address = ptrtoint ptr %sizes to i64
  %rest = and i64 %address, 7
  %is_odd = icmp ne i64 %rest, 0
  %is_null = icmp eq i64 %address, 0
  %bad = or i1 %is_odd, %is_null
  ret i1 %bad
}

define internal i1 @${NAME}.are_in_ranges(ptr %sizes) {
$RANGES
}

define internal i1 @${NAME}.are_same(ptr %sizes, ptr %area) {
$SAME
}

define internal i32 @${NAME}.room(ptr %sizes, ptr %area) {
  %tensors_place = getelementptr i64, ptr %sizes, i64 $COUNT
  %tensors = load i64, ptr %tensors_place
  %arena_place = getelementptr i64, ptr %sizes, i64 $NEXT
  %arena = load i64, ptr %arena_place
  %tensors_need = getelementptr i64, ptr %area, i64 $COUNT
  %tensors_least = load i64, ptr %tensors_need
  %arena_need = getelementptr i64, ptr %area, i64 $NEXT
  %arena_least = load i64, ptr %arena_need
  %has_tensors = icmp uge i64 %tensors, %tensors_least
  %has_arena = icmp uge i64 %arena, %arena_least
  %has = and i1 %has_tensors, %has_arena
  %code = select i1 %has, i32 0, i32 $TOO_SMALL
  ret i32 %code
}

define internal i64 @${NAME}.place(ptr %table, i64 %count, ptr %lengths, ptr %offsets) {
start:
  br label %next
next: ; activation: its number, how many live with it and are placed, and their numbers
  %rank = phi i64 [ 0, %start ], [ %next_rank, %laid ]
  %row = phi ptr [ %table, %start ], [ %next_row, %laid ]
  %end = phi i64 [ 0, %start ], [ %new_end, %laid ]
  %is_one = icmp ult i64 %rank, %count
  br i1 %is_one, label %begin, label %done
begin:
  %number_32 = load i32, ptr %row
  %number = zext i32 %number_32 to i64
  %beside_place = getelementptr i32, ptr %row, i64 1
  %beside_32 = load i32, ptr %beside_place
  %beside = zext i32 %beside_32 to i64
  %others = getelementptr i32, ptr %row, i64 2
  %length_place = getelementptr i64, ptr %lengths, i64 %number
  %length = load i64, ptr %length_place
  br label %look
look: ; at the others in turn, until all that come one after the other are out of the way
  %offset = phi i64 [ 0, %begin ], [ %next_offset, %other ]
  %index = phi i64 [ 0, %begin ], [ %next_index, %other ]
  %free_of = phi i64 [ 0, %begin ], [ %next_free_of, %other ]
  %is_free = icmp uge i64 %free_of, %beside
  br i1 %is_free, label %laid, label %other
other:
  %other_place = getelementptr i32, ptr %others, i64 %index
  %other_32 = load i32, ptr %other_place
  %other_number = zext i32 %other_32 to i64
  %from_place = getelementptr i64, ptr %offsets, i64 %other_number
  %from = load i64, ptr %from_place
  %bytes_place = getelementptr i64, ptr %lengths, i64 %other_number
  %bytes = load i64, ptr %bytes_place
  %to = add i64 %from, %bytes
  %own_to = add i64 %offset, %length
  %is_before = icmp ult i64 %from, %own_to
  %is_behind = icmp ugt i64 %to, %offset
  %is_in_way = and i1 %is_before, %is_behind
  %next_offset = select i1 %is_in_way, i64 %to, i64 %offset
  %one_more = add i64 %free_of, 1
  %next_free_of = select i1 %is_in_way, i64 1, i64 %one_more
  %after = add i64 %index, 1
  %is_last = icmp eq i64 %after, %beside
  %next_index = select i1 %is_last, i64 0, i64 %after
  br label %look
laid:
  %offset_place = getelementptr i64, ptr %offsets, i64 %number
  store i64 %offset, ptr %offset_place
  %top = add i64 %offset, %length
  %is_higher = icmp ugt i64 %top, %end
  %new_end = select i1 %is_higher, i64 %top, i64 %end
  %next_rank = add i64 %rank, 1
  %next_row = getelementptr i32, ptr %others, i64 %beside
  %is_too_high = icmp ugt i64 %new_end, $LARGEST
  br i1 %is_too_high, label %never, label %next
never:
  ret i64 -1
done:
  ret i64 %end
}

define i32 @${NAME}_measure(ptr %sizes) {
start:
  %bad = call i1 @${NAME}.no_sizes(ptr %sizes)
  br i1 %bad, label %misaligned, label %choose
misaligned:
  ret i32 $MISALIGNED
choose:
  %tensors_place = getelementptr i64, ptr %sizes, i64 $COUNT
  store i64 0, ptr %tensors_place
  %arena_place = getelementptr i64, ptr %sizes, i64 $NEXT
  store i64 0, ptr %arena_place
  %number = call i64 @${NAME}.choose()
  switch i64 %number, label %none [ $CASES ]
none:
  %why = call i32 @${NAME}.unable(i64 %number)
  ret i32 %why
$MEASURES
}

define i32 @${FUNCTION}_tensors(ptr %sizes, ptr %inputs, ptr %outputs) {
start:
  %over = alloca i1
  store i1 false, ptr %over
  %bad_sizes = call i1 @${NAME}.no_sizes(ptr %sizes)
  %no_inputs = icmp eq ptr %inputs, null
  %no_outputs = icmp eq ptr %outputs, null
  %bad_inputs = and i1 %no_inputs, $HAS_INPUTS
  %bad_outputs = and i1 %no_outputs, $HAS_OUTPUTS
  %bad_tables = or i1 %bad_inputs, %bad_outputs
  %bad = or i1 %bad_sizes, %bad_tables
  br i1 %bad, label %misaligned, label %aligned
misaligned:
  ret i32 $MISALIGNED
$TENSORS
  ret i32 0
}
"""

_VARIANT = """
@${WORK}.order = private constant [$ORDER_COUNT x i32] [$ORDER]

define internal i32 @${WORK}.lay_out(ptr %sizes, ptr %area) {
start:
  %over = alloca i1
  store i1 false, ptr %over
  br label %aligned
$LAY_OUT
  ret i32 0
}

define internal i32 @${WORK}.measure(ptr %sizes) {
start:
  %area = alloca [$WORDS x i64], align 16
  %code = call i32 @${WORK}.lay_out(ptr %sizes, ptr %area)
  %is_good = icmp eq i32 %code, 0
  br i1 %is_good, label %tell, label %done
tell:
  %from = getelementptr i64, ptr %area, i64 $COUNT
  %to = getelementptr i64, ptr %sizes, i64 $COUNT
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 16, i1 false)
  br label %done
done:
  ret i32 %code
}

define internal i32 @${WORK}.ready(ptr %tensors, ptr %sizes, i64 %phase, i64 %share) {
start: ; 0 to go on, -1 if there is nothing to do, or what C is told
  %area = getelementptr i8, ptr %tensors, i64 $AREA
  %is_later = icmp ne i64 %phase, 0
  %is_other = icmp ne i64 %share, 0
  br i1 %is_later, label %compare, label %first
first:
  br i1 %is_other, label %nothing, label %compare
nothing: ; while the first share lays out what they all need
  ret i32 -1
compare:
  %same = call i1 @${NAME}.are_same(ptr %sizes, ptr %area)
  br i1 %same, label %room, label %differ
differ:
  br i1 %is_later, label %unknown, label %lay
unknown:
  ret i32 $NOT_INITIALIZED
lay:
  store i64 -1, ptr %area
  %code = call i32 @${WORK}.lay_out(ptr %sizes, ptr %area)
  %is_good = icmp eq i32 %code, 0
  br i1 %is_good, label %room, label %failed
failed:
  ret i32 %code
room:
  %found = call i32 @${NAME}.room(ptr %sizes, ptr %area)
  ret i32 %found
}
"""


def open_functions_text(bundle: Bundle) -> str:
    """Return the functions that C calls with sizes alone, and what all variants share."""
    (function,) = bundle.functions
    called = f"{bundle.name}_{function.identifier}"
    variants = range(len(bundle.variants))
    measures = (
        f"case{v}:\n  %code{v} = call i32 @{called}.v{v}.measure(ptr %sizes)\n  ret i32 %code{v}"
        for v in variants
    )
    return arithmetic_text(bundle.name) + filled(
        _COMMON,
        NAME=bundle.name,
        FUNCTION=called,
        COUNT=len(bundle.sizes),
        NEXT=len(bundle.sizes) + 1,
        RANGES=range_lines(bundle),
        SAME=same_lines(bundle),
        CASES=" ".join(f"i64 {v}, label %case{v}" for v in variants),
        MEASURES="\n".join(measures),
        TENSORS="\n".join(tensor_lines(bundle, function)),
        HAS_INPUTS="true" if function.inputs else "false",
        HAS_OUTPUTS="true" if function.outputs else "false",
        LARGEST=LARGEST_RUN_BYTES,
        MISALIGNED=MISALIGNED,
        TOO_SMALL=TOO_SMALL,
    )


def open_variant_text(
    bundle: Bundle, function: BundledFunction, native: NativeProgram, work: str
) -> str:
    """Return the functions that lay out memory for *native*, whose names begin with *work*."""
    opened = native.open
    assert opened is not None
    order = _order(opened.placement)
    return filled(
        _VARIANT,
        NAME=bundle.name,
        WORK=work,
        ORDER_COUNT=len(order),
        ORDER=", ".join(f"i32 {number}" for number in order),
        LAY_OUT="\n".join(layout_lines(bundle, function, native, f"{work}.order")),
        WORDS=Area.of(native).count,
        COUNT=len(bundle.sizes),
        AREA=bundle.area_offset,
        NOT_INITIALIZED=NOT_INITIALIZED,
    )


def _order(placement: PlacementOrder) -> list[int]:
    """Return what ``place`` reads: of each activation in turn its number, and those beside it."""
    rows = zip(placement.order, placement.before, strict=True)
    return [n for number, others in rows for n in (number, len(others), *others)]
