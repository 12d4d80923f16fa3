"""Instructions of NVIDIA's GPUs that CUDA C++ has no operator for, as device functions around inline PTX.

Names and operands are those of NVIDIA's PTX ISA, chapters "Integer Arithmetic Instructions: dp4a", "Data Movement and
Conversion Instructions: cp.async", "Parallel Synchronization and Communication Instructions: mbarrier" and "Warp Level
Matrix Multiply-Accumulate Instructions". A function that an architecture lacks is written with what it has. Every
function says what it does in terms of bytes and lanes: tests run kernels on CPUs with these descriptions in place of
the functions (`tests/support/gpu/emulated_gpu`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tvm.script import tirx as T

from int8tune.schedules.gpus import Gpu

LETTERS = {"u8": "u", "s8": "s"}
_HEAD = "__forceinline__ __device__"
_SHARED = '"r"((unsigned)__cvta_generic_to_shared({}))'


class Instructions:
    """The device functions of an architecture; each use of one brings its source along."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        # cp.async, ldmatrix's `m16n8k32` partner and the wide product came with sm_80.
        self._has_sm_80 = gpu.has_async_copy

    def dot(self, data: Any, weight: Any, total: Any, types: tuple[str, str]) -> Any:
        """`total` plus the products of the four bytes of two words."""
        letters = "".join(LETTERS[kind] for kind in types)
        name = f"int8tune_dot_{letters}"
        operands = ".".join(f"{letter}32" for letter in letters)
        source = (
            f"{_HEAD} int {name}(int data, int weight, int total) {{ int sum; "
            f'asm("dp4a.{operands} %0, %1, %2, %3;" : "=r"(sum) : "r"(data), "r"(weight), "r"(total)); return sum; }}\n'
        )
        return T.cuda.func_call(name, data, weight, total, source_code=source, return_type="int32")

    def copy(self, to: Any, source: Any, width: int, is_real: Any) -> None:
        """Begin to copy 4, 8 or 16 bytes to shared memory; zeros where they are not real."""
        name = f"int8tune_copy_{width}"
        if self._has_sm_80:
            cache = "cg" if width == 16 else "ca"
            body = (
                f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width}, %2;" '
                f':: {_SHARED.format("to")}, "l"(from), "r"(bytes) : "memory");'
            )
        else:
            kind = {4: "int", 8: "int2", 16: "int4"}[width]
            zeros = ", ".join("0" * (width // 4)) if width > 4 else "0"
            zero = f"make_{kind}({zeros})" if width > 4 else zeros
            body = f"*({kind}*)to = bytes ? *(const {kind}*)from : {zero};"
        source_code = f"{_HEAD} void {name}(void* to, const void* from, int bytes) {{ {body} }}\n"
        T.evaluate(T.cuda.func_call(name, to, source, T.Select(is_real, width, 0), source_code=source_code))

    def commit(self) -> None:
        """End a group of copies."""
        body = 'asm volatile("cp.async.commit_group;" ::: "memory");' if self._has_sm_80 else ""
        source = f"{_HEAD} void int8tune_commit() {{ {body} }}\n"
        T.evaluate(T.cuda.func_call("int8tune_commit", source_code=source))

    def wait(self, groups: int) -> None:
        """Wait until no more than so many of this thread's latest groups are on their way."""
        body = f'asm volatile("cp.async.wait_group {groups};" ::: "memory");' if self._has_sm_80 else ""
        name = f"int8tune_wait_{groups}"
        T.evaluate(T.cuda.func_call(name, source_code=f"{_HEAD} void {name}() {{ {body} }}\n"))

    def begin_barrier(self, barrier: Any, count: int) -> None:
        """Have a barrier of so many arrivals, 8 bytes of shared memory, before `show_barriers`.

        It has phases, the first is 0. A phase ends when all have arrived and all bytes have come that are expected.
        """
        self._barrier("begin_barrier", '"mbarrier.init.shared::cta.b64 [%0], %1;"', barrier, T.int32(count))

    def show_barriers(self) -> None:
        """Let everybody see the barriers that this thread began, once `__syncthreads` is behind them."""
        body = 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");'
        source = f"{_HEAD} void int8tune_show_barriers() {{ {body} }}\n"
        T.evaluate(T.cuda.func_call("int8tune_show_barriers", source_code=source))

    def arrive(self, barrier: Any) -> None:
        """Arrive at a barrier, without waiting."""
        body = '"{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }"'
        self._barrier("arrive", body, barrier)

    def expect(self, barrier: Any, size: int) -> None:
        """Arrive at a barrier whose phase ends no sooner than so many bytes have come."""
        body = '"{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }"'
        self._barrier("expect", body, barrier, T.int32(size))

    def arrive_with_copies(self, barrier: Any) -> None:
        """Arrive at a barrier once all copies have come that this thread began."""
        self._barrier("arrive_with_copies", '"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"', barrier)

    def wait_for_phase(self, barrier: Any, parity: Any) -> None:
        """Wait until the barrier's phase has ended that is even or odd: the present one, or the one before it."""
        body = (
            '"{ .reg .pred ended; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1; '
            '@ended bra DONE; bra AGAIN; DONE: }"'
        )
        self._barrier("wait_for_phase", body, barrier, parity)

    def copy_bytes(self, to: Any, source: Any, size: int, barrier: Any) -> None:
        """Begin to copy a multiple of 16 bytes to shared memory, for which the barrier waits."""
        name = "int8tune_copy_bytes"
        body = (
            'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" '
            f':: {_SHARED.format("to")}, "l"(from), "r"(bytes), {_SHARED.format("barrier")} : "memory");'
        )
        source_code = f"{_HEAD} void {name}(void* to, const void* from, int bytes, void* barrier) {{ {body} }}\n"
        T.evaluate(T.cuda.func_call(name, to, source, T.int32(size), barrier, source_code=source_code))

    def as_launched(self, count: int) -> Any:
        """`count`, for as many grids as lie behind each other at a launch: one, which a compiler can't know.

        A loop of so many turns is not written out; for sm_120 NVIDIA's compiler did that with 1,000 of them.
        """
        name = "int8tune_as_launched"
        body = 'int grids; asm("mov.u32 %0, %%nctaid.z;" : "=r"(grids)); return count * grids;'
        source = f"{_HEAD} int {name}(int count) {{ {body} }}\n"
        return T.cuda.func_call(name, T.int32(count), source_code=source, return_type="int32")

    def give_registers(self, count: int) -> None:
        """Keep so many registers of each of this thread's four warps; others may `take_registers`."""
        self._registers("give", "dec", count)

    def take_registers(self, count: int) -> None:
        """Wait until each thread of these four warps can have so many registers."""
        self._registers("take", "inc", count)

    def pass_turn(self, turn: Any, threads: int) -> None:
        """Let those go on who wait for the turn (1 to 15), with as many threads as there are on both sides."""
        self._turn("pass", "arrive", turn, threads)

    def await_turn(self, turn: Any, threads: int) -> None:
        """Wait until somebody passes this turn."""
        self._turn("await", "sync", turn, threads)

    def _barrier(self, name: str, instruction: str, barrier: Any, *values: Any) -> None:
        name = f"int8tune_{name}"
        declared = ", int value" * len(values)
        operand = ', "r"(value)' * len(values)
        body = f'asm volatile({instruction} :: {_SHARED.format("barrier")}{operand} : "memory");'
        source = f"{_HEAD} void {name}(void* barrier{declared}) {{ {body} }}\n"
        T.evaluate(T.cuda.func_call(name, barrier, *values, source_code=source))

    def _registers(self, name: str, direction: str, count: int) -> None:
        name = f"int8tune_{name}_registers_{count}"
        body = f'asm volatile("setmaxnreg.{direction}.sync.aligned.u32 {count};");'
        T.evaluate(T.cuda.func_call(name, source_code=f"{_HEAD} void {name}() {{ {body} }}\n"))

    def _turn(self, name: str, instruction: str, turn: Any, threads: int) -> None:
        name = f"int8tune_{name}_turn"
        body = f'asm volatile("barrier.{instruction} %0, %1;" :: "r"(turn), "r"(threads) : "memory");'
        source = f"{_HEAD} void {name}(int turn, int threads) {{ {body} }}\n"
        T.evaluate(T.cuda.func_call(name, turn, T.int32(threads), source_code=source))

    def arrive_at_cluster(self) -> None:
        """Arrive at the barrier of the cluster, which orders no memory; `await_cluster` waits for all."""
        body = 'asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");'
        source = f"{_HEAD} void int8tune_arrive_at_cluster() {{ {body} }}\n"
        T.evaluate(T.cuda.func_call("int8tune_arrive_at_cluster", source_code=source))

    def await_cluster(self, blocks: int) -> None:
        """Wait for all threads of the cluster, whose blocks follow each other on the grid's last axis."""
        name = f"int8tune_await_cluster_of_{blocks}"
        body = 'asm volatile("barrier.cluster.wait;" ::: "memory");'
        T.evaluate(T.cuda.func_call(name, source_code=f"{_HEAD} void {name}() {{ {body} }}\n"))

    def send_bytes(self, to: Any, source: Any, size: int, barrier: Any, block: Any) -> None:
        """Begin to copy from this block's shared memory to another's, for which its barrier waits.

        Args:
            to, barrier: where they would be in this block.
            block: the other one's number in the cluster.
        """
        name = "int8tune_send_bytes"
        there = 'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"({0}_there) : {1}, "r"(block));'
        copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        body = (
            "unsigned to_there, barrier_there; "
            f"{there.format('to', _SHARED.format('to'))} {there.format('barrier', _SHARED.format('barrier'))} "
            f'asm volatile("{copy}" '
            f':: "r"(to_there), {_SHARED.format("from")}, "r"(bytes), "r"(barrier_there) : "memory");'
        )
        source_code = (
            f"{_HEAD} void {name}(void* to, const void* from, int bytes, void* barrier, int block) {{ {body} }}\n"
        )
        T.evaluate(T.cuda.func_call(name, to, source, T.int32(size), barrier, block, source_code=source_code))

    def load_matrices(self, registers: Any, row: Any) -> None:
        """Four registers of each lane, from four matrices of 8 rows of 16 bytes.

        Lane `8 i + j` gives the address of row `j` of matrix `i`, and gets bytes `4 (lane % 4)` and on of row
        `lane / 4` of each matrix.
        """
        registers_list = '"=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])'
        source = (
            f"{_HEAD} void int8tune_load_matrices(int* registers, const void* row) {{ "
            'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" '
            f': {registers_list} : {_SHARED.format("row")} : "memory"); }}\n'
        )
        T.evaluate(T.cuda.func_call("int8tune_load_matrices", registers, row, source_code=source))

    def multiply(self, sums: Any, data: Any, weight: Any, types: tuple[str, str]) -> None:
        """Add a product of 16 rows x 32 bytes and 32 bytes x 8 columns to 16 x 8 sums.

        A lane has, with `g = lane / 4` and `b = 4 (lane % 4)`: data, bytes `b` and on of rows `g` and `g + 8`, then the
        same 16 bytes further; weights, bytes `b` and on of column `g`, then 16 bytes further; sums, columns
        `2 (lane % 4)` and the next of row `g`, then of row `g + 8`.
        """
        letters = "".join(LETTERS[kind] for kind in types)
        name = f"int8tune_multiply_{letters}"
        body = _wide_product(types) if self._has_sm_80 else _narrow_products(types)
        source = f"{_HEAD} void {name}(int* sums, const int* data, const int* weight) {{ {body} }}\n"
        T.evaluate(T.cuda.func_call(name, sums, data, weight, source_code=source))

    def publish(self) -> None:
        """Let the units that read shared memory by themselves (`wgmma`) see what this thread's copies wrote."""
        body = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
        source = f"{_HEAD} void int8tune_publish() {{ {body} }}\n"
        T.evaluate(T.cuda.func_call("int8tune_publish", source_code=source))

    def begin_group(self) -> None:
        """Before the products of four warps: their sums are in registers."""
        body = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
        source = f"{_HEAD} void int8tune_begin_group() {{ {body} }}\n"
        T.evaluate(T.cuda.func_call("int8tune_begin_group", source_code=source))

    def end_group(self) -> None:
        """End a group of products of this thread's four warps."""
        body = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
        source = f"{_HEAD} void int8tune_end_group() {{ {body} }}\n"
        T.evaluate(T.cuda.func_call("int8tune_end_group", source_code=source))

    def wait_group(self, groups: int) -> None:
        """Wait until no more than so many of these latest groups are being multiplied; the others are in their sums."""
        body = f'asm volatile("wgmma.wait_group.sync.aligned {groups};" ::: "memory");'
        name = f"int8tune_wait_group_{groups}"
        T.evaluate(T.cuda.func_call(name, source_code=f"{_HEAD} void {name}() {{ {body} }}\n"))

    def multiply_group(
        self, sums: Any, data: Any, weight: Any, columns: int, row_bytes: int, types: tuple[str, str], is_added: Any
    ) -> None:
        """Begin to add a product of 64 rows x 32 bytes and 32 bytes x columns, in shared memory, to four warps' sums.

        A product that is not added takes the place of the sums: no other instruction may write to their registers while
        products are on their way, or NVIDIA's compiler lets each product wait for the one before (its advisory C7515).

        Rows of data, and columns of weights, lie `row_bytes` (32, 64 or 128) apart, from an address that is a multiple
        of 8 such rows but for the first bytes to be multiplied. Where they lie, bits 4 and on of each address are
        changed by those from bit 7 on: as many as a row has chunks. A warp has 16 rows; a lane's sums are those of
        `multiply`, for each 8 columns.
        """
        left = f'"l"({_descriptor("data", row_bytes)})'
        self._multiply_group("group", "const void*", [left], sums, data, weight, columns, row_bytes, types, is_added)

    def multiply_group_of_registers(
        self, sums: Any, data: Any, weight: Any, columns: int, row_bytes: int, types: tuple[str, str], is_added: Any
    ) -> None:
        """The same with data in registers, which keep it until these products are waited for: of `multiply`'s lanes."""
        words = [f'"r"(data[{index}])' for index in range(4)]
        self._multiply_group("words", "const int*", words, sums, data, weight, columns, row_bytes, types, is_added)

    def _multiply_group(
        self, kind: str, pointer: str, left: list[str], sums: Any, data: Any, weight: Any, columns: int,
        row_bytes: int, types: tuple[str, str], is_added: Any,
    ) -> None:  # fmt: skip
        letters = "".join(LETTERS[kind] for kind in types)
        name = f"int8tune_multiply_{kind}_{letters}_{columns}_{row_bytes}"
        count = columns // 2
        places, operands = (", ".join(text.format(i) for i in range(count)) for text in ("%{}", '"+r"(sums[{}])'))
        lefts = ", ".join(f"%{count + index}" for index in range(len(left)))
        if len(left) > 1:
            lefts = f"{{{lefts}}}"
        right, added = (f"%{count + len(left) + index}" for index in range(2))
        body = (
            f'asm volatile("{{ .reg .pred p; setp.ne.u32 p, {added}, 0; wgmma.mma_async.sync.aligned.m64n{columns}k32.'
            f's32.{".".join(types)} {{{places}}}, {lefts}, {right}, p; }}" : {operands} '
            f': {", ".join(left)}, "l"({_descriptor("weight", row_bytes)}), "r"(added));'
        )
        source = f"{_HEAD} void {name}(int* sums, {pointer} data, const void* weight, int added) {{ {body} }}\n"
        T.evaluate(T.cuda.func_call(name, sums, data, weight, T.Select(is_added, 1, 0), source_code=source))


def _descriptor(matrix: str, row_bytes: int) -> str:
    """What says where a matrix of rows lies in shared memory, and how its chunks are swizzled."""
    swizzle = {128: 1, 64: 2, 32: 3}[row_bytes]
    return (
        f"(unsigned long long)(((unsigned)__cvta_generic_to_shared({matrix}) & 0x3ffff) >> 4) | 1ull << 16 "
        f"| (unsigned long long)({8 * row_bytes} >> 4) << 32 | {swizzle}ull << 62"
    )


def fused(left: Any, right: Any, addend: Any) -> Any:
    """`left * right + addend` rounded once."""
    return T.call_pure_extern("__fmaf_rn", left, right, addend, dtype="float32")


def rounded_product(left: Any, right: Any) -> Any:
    """`left * right` rounded, whatever is added to it."""
    return T.call_pure_extern("__fmul_rn", left, right, dtype="float32")


def here(value: Any) -> Any:
    """A float32 as it is, of which nothing is computed before this: a compiler would wait for its load earlier."""
    source = f'{_HEAD} float int8tune_here(float value) {{ asm volatile("" : "+f"(value)); return value; }}\n'
    return T.cuda.func_call("int8tune_here", value, source_code=source, return_type="float32")


def saturated(value: Any) -> Any:
    """A float32 within 0 and 1; 0 if it is no number."""
    return T.call_pure_extern("__saturatef", value, dtype="float32")


def bounded_sum(value: Any, addend: Any, high: Any) -> Any:
    """An int32 sum, which wraps, within 0 and `high`: one instruction on Hopper (VIADDMNMX)."""
    return T.call_pure_extern("__viaddmin_s32_relu", value, addend, high, dtype="int32")


def packed_bytes(values: Sequence[Any], added: Any) -> Any:
    """Four int32 within 0 and 255 as the bytes of a word, and another word, which is added."""
    name = "int8tune_pack_bytes"
    body = (
        'unsigned upper, word; asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(upper) : "r"(d), "r"(c)); '
        'asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(upper)); '
        "return (int)(word + (unsigned)added);"
    )
    source = f"{_HEAD} int {name}(int a, int b, int c, int d, int added) {{ {body} }}\n"
    return T.cuda.func_call(name, *values, added, source_code=source, return_type="int32")


def store_words(to: Any, words: Sequence[Any]) -> None:
    """Store one, two or four words at once."""
    name, count = f"int8tune_store_words_{len(words)}", len(words)
    declared, given = (", ".join(text + "abcd"[at] for at in range(count)) for text in ("int ", ""))
    kind, value = (f"int{count}", f"make_int{count}({given})") if count > 1 else ("int", given)
    source = f"{_HEAD} void {name}(void* to, {declared}) {{ *({kind}*)to = {value}; }}\n"
    T.evaluate(T.cuda.func_call(name, to, *words, source_code=source))


def bytes_across(low: Any, high: Any, first: Any) -> Any:
    """Four bytes of two words, from the first one's byte 0, 1, 2 or 3 on."""
    return T.call_pure_extern("__byte_perm", low, high, 0x3210 + 0x1111 * first, dtype="int32")


def transposed(words: Any, bind: Callable[[Any], Any]) -> list[Any]:
    """Four words, each of byte 0, 1, 2 or 3 of the given four."""
    return rows_joined(rows_paired(words[0], words[1], bind), rows_paired(words[2], words[3], bind), bind)


def rows_paired(first: Any, second: Any, bind: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Bytes 0 of two words, then bytes 1, as one word; bytes 2 and 3 as another."""
    return bind(_permuted(first, second, 0x5140)), bind(_permuted(first, second, 0x7362))


def rows_joined(first: tuple[Any, Any], second: tuple[Any, Any], bind: Callable[[Any], Any]) -> list[Any]:
    """Four words out of two such pairs, each of byte 0, 1, 2 or 3 of all four."""
    orders = (0x5410, 0x7632)
    return [bind(_permuted(low, high, order)) for low, high in zip(first, second, strict=True) for order in orders]


def _permuted(first: Any, second: Any, order: int) -> Any:
    """Bytes of two words (0 to 3 and 4 to 7), one for each digit of `order` (PRMT)."""
    return T.call_pure_extern("__byte_perm", first, second, T.int32(order), dtype="int32")


def _wide_product(types: Iterable[str]) -> str:
    kinds = ".".join(types)
    sums = ", ".join(f'"+r"(sums[{i}])' for i in range(4))
    operands = ", ".join([*(f'"r"(data[{i}])' for i in range(4)), *(f'"r"(weight[{i}])' for i in range(2))])
    return (
        f'asm("mma.sync.aligned.m16n8k32.row.col.s32.{kinds}.s32 '
        f'{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};" : {sums} : {operands});'
    )


def _narrow_products(types: Iterable[str]) -> str:
    """The same by four products of 8 rows x 16 bytes and 16 bytes x 8 columns."""
    kinds = ".".join(types)
    parts = []
    for step in range(2):
        for half in range(2):
            sums = ", ".join(f'"+r"(sums[{2 * half + i}])' for i in range(2))
            operands = f'"r"(data[{2 * step + half}]), "r"(weight[{step}])'
            parts.append(
                f'asm("mma.sync.aligned.m8n8k16.row.col.s32.{kinds}.s32 {{%0, %1}}, {{%2}}, {{%3}}, {{%0, %1}};" '
                f": {sums} : {operands});"
            )
    return " ".join(parts)
