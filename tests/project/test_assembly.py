"""What golden files say of a loop: where it is, what is in it, and that a spill shows."""

from __future__ import annotations

import pytest

from tests.support.kernels.assembly import (
    counts_of,
    digest,
    innermost_loop,
    llvm_code,
    memory_operands,
    readable_loop,
    sass_code,
)
from tests.support.kernels.assembly_isas import ARM, CUDA, X86

X86_LISTING = """
	.text
	.file	"TVMMod"
	.section	.rodata.cst4,"aM",@progbits,4
.LCPI1_0:
	.long	255
	.section	.text,"ax",@progbits
main:
.Lfunc_begin0:
	.loc	1 0 0
	vpmaddwd	%ymm9, %ymm9, %ymm9
.LBB1_1:
	movq	%r9, %rax
.LBB1_2:
.Ltmp3:
	vpand	.LCPI1_0(%rip), %ymm7, %ymm3
	{vex}	vpdpbusd	(%r9,%rax,2), %ymm3, %ymm12
	je	.LBB1_9
	incq	%rax
	jne	.LBB1_2
	vpmaddwd	%ymm9, %ymm9, %ymm9
	jne	.LBB1_1
.LBB1_9:
	retq
	.section	.debug_str,"MS",@progbits,1
	.asciz	"TVM"
"""
SPILL = (
    "	vmovdqa	%ymm3, 96(%rsp)\n	vmovdqa	96(%rsp), %ymm3\n	vpaddd	64(%rsp,%r9), %ymm3, %ymm3\n	incq"
)
ARM_LISTING = """
main:
.LBB0_1:
	ldp	q7, q9, [x8, #16]
	ldr	q31, [sp, #48]
	smlal2	v31.8h, v7.16b, v9.16b
	str	q31, [sp, #48]
	subs	w3, w3, #1
	b.ne	.LBB0_1
	ret
"""
SASS_LISTING = """
		Function : main_kernel
        /*0000*/                   MOV R1, c[0x0][0x28] ;   /* 0x00000a0000017a02 */
        /*0010*/                   LDL.LU R3, [R1+0x4] ;    /* 0x00000a0000017a02 */
                                                            /* 0x003fde0000000f00 */
        /*0020*/                   DEPBAR.LE SB0, 0x1 ;     /* 0x000080400000791a */
        /*0030*/                   IDP.4A.U8.S8 R4, R3, R2, R4 ;
        /*0040*/               @P0 BRA 0x10 ;
        /*0050*/                   EXIT ;
        /*0060*/                   BRA 0x60;
        /*0070*/                   NOP;
"""


def test_loop_is_the_innermost_one_and_its_names_are_its_own() -> None:
    assert readable_loop(innermost_loop(llvm_code(X86_LISTING), X86), X86) == [
        "L0:",
        " vpand C0(%rip), %ymm0, %ymm1",
        " {vex} vpdpbusd (%r0,%r1,2), %ymm1, %ymm2",
        " je out",
        " incq %r1",
        " jne L0",
    ]


def test_loop_stays_where_code_around_it_changes() -> None:
    changed = X86_LISTING.replace("%rax", "%rdx").replace("%ymm3", "%ymm4").replace("LBB1_2", "LBB1_5")
    before, after = (llvm_code(listing) for listing in (X86_LISTING, changed))
    assert readable_loop(innermost_loop(before, X86), X86) == readable_loop(innermost_loop(after, X86), X86)
    assert digest(before) != digest(after)


def test_digest_is_of_the_code_and_its_constants_alone() -> None:
    same = X86_LISTING.replace("TVMMod", "other").replace(".Ltmp3", ".Ltmp4").replace(".loc	1", ".loc	2")
    assert digest(llvm_code(same)) == digest(llvm_code(X86_LISTING))
    assert digest(llvm_code(X86_LISTING.replace("255", "254"))) != digest(llvm_code(X86_LISTING))


def test_spill_shows_on_x86() -> None:
    spilled = innermost_loop(llvm_code(X86_LISTING.replace("	incq", SPILL)), X86)
    assert [line for line in readable_loop(spilled, X86) if "stack" in line] == [
        " vmovdqa %ymm1, [stack+0]",
        " vmovdqa [stack+0], %ymm1",
        " vpaddd [stack+1,%r0], %ymm1, %ymm1",
    ]
    counts = counts_of(spilled, X86)
    assert (counts.products, counts.loads, counts.stores, counts.stack_loads, counts.stack_stores) == (1, 4, 1, 2, 1)


def test_spill_shows_on_arm() -> None:
    loop = innermost_loop(llvm_code(ARM_LISTING), ARM)
    assert readable_loop(loop, ARM)[1:5] == [
        " ldp q0, q1, [x0, #16]",
        " ldr q2, [stack+0]",
        " smlal2 v2.8h, v0.16b, v1.16b",
        " str q2, [stack+0]",
    ]
    counts = counts_of(loop, ARM)
    assert (counts.products, counts.loads, counts.stores, counts.stack_loads, counts.stack_stores) == (1, 2, 1, 1, 1)


def test_spill_shows_on_a_gpu() -> None:
    code = sass_code(SASS_LISTING)
    loop = innermost_loop(code, CUDA)
    assert code[-1] == "BRA L1"
    assert readable_loop(loop, CUDA) == [
        "L0:",
        " LDL.LU R3, [R1+0x4]",
        " DEPBAR.LE SB0, 0x1",
        " IDP.4A.U8.S8 R4, R3, R2, R4",
        " @P0 BRA L0",
    ]
    assert str(counts_of(loop, CUDA)).endswith("1 loads, 0 stores; on the stack 1 loads, 0 stores")


def test_code_without_a_loop_is_shown_by_its_piece_with_most_products() -> None:
    product = "mul v0.8h, v1.8h, v2.8h"
    code = llvm_code("\n".join(["main:", product, product, "cbz x0, .LBB0_1", product, ".LBB0_1:", product, "ret"]))
    assert counts_of(innermost_loop(code, ARM), ARM).products == 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vmovdqa %ymm1, 8(%rax,%rcx)", [False, True]),
        ("vpdpbusd (%rax){1to16}, %zmm1, %zmm2", [True, False, False]),
        ("retq", []),
    ],
)
def test_operands_in_memory(line: str, expected: list[bool]) -> None:
    assert memory_operands(line) == expected


@pytest.mark.parametrize(
    ("line", "loads", "stores"),
    [
        ("cmpl $0, (%rax)", 1, 0),
        ("leaq 8(%rax), %rcx", 0, 0),
        ("prefetcht0 8(%rax)", 0, 0),
        ("movl %ecx, (%rax)", 0, 1),
        ("tileloadd (%rax,%rcx), %tmm0", 1, 0),
        ("tilestored %tmm0, (%rax,%rcx)", 0, 1),
    ],
)
def test_loads_and_stores_of_x86(line: str, loads: int, stores: int) -> None:
    counts = counts_of([line], X86)
    assert (counts.loads, counts.stores) == (loads, stores)
