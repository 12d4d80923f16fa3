"""The AVX512-VNNI dot product: 16 lanes of int32, each the sum of four u8 x s8 products, without saturation.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD.
"""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: N803
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

DOT_16X4 = "int8tune.dot_16x4_u8s8s32_avx512vnni"
DOT_16X4_PACKED = "int8tune.dot_16x4_packed_u8s8s32_avx512vnni"


@T.prim_func(s_tir=True)
def _description(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        for i in T.serial(0, 16):
            for k in T.serial(0, 4):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")


@T.prim_func(s_tir=True)
def _implementation(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        quad = T.reinterpret(A.vload([0], "uint8x4"), dtype="int32")
        C[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
            C.vload([0], dtype="int32x16"),
            T.reinterpret(T.broadcast(quad, 16), dtype="int8x64"),
            B.vload([0, 0], dtype="int8x64"),
            dtype="int32x16",
        )


@T.prim_func(s_tir=True)
def _packed_description(
    A: T.Buffer((16,), "uint32", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:16], B[0:16, 0:4])
        T.writes(C[0:16])
        for i in T.serial(0, 16):
            for k in T.serial(0, 4):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(
                        T.bitwise_and(T.shift_right(A[vi], T.cast(vk * 8, "uint32")), T.uint32(255)), "int32"
                    ) * T.cast(B[vi, vk], "int32")


@T.prim_func(s_tir=True)
def _packed_implementation(
    A: T.Buffer((16,), "uint32", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:16], B[0:16, 0:4])
        T.writes(C[0:16])
        C[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
            C.vload([0], dtype="int32x16"),
            T.reinterpret(A.vload([0], dtype="uint32x16"), dtype="int8x64"),
            B.vload([0, 0], dtype="int8x64"),
            dtype="int32x16",
        )


def register_dot_16x4() -> str:
    """Register the dot product of four broadcast bytes and 16x4 weights with TVM, and return its name."""
    TensorIntrin.register(DOT_16X4, _description, _implementation, override=True)
    return DOT_16X4


def register_dot_16x4_packed() -> str:
    """Register the dot product of 16 words of four bytes and 16x4 weights with TVM, and return its name."""
    TensorIntrin.register(DOT_16X4_PACKED, _packed_description, _packed_implementation, override=True)
    return DOT_16X4_PACKED
