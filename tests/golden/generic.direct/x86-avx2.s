; generic.direct version 1 on x86-avx2
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=5, tile_blocks=2, outer=weights, unroll=1
; all code: 686 lines, sha256 63394d61f60980626eb5fcf509848ff884efd92aba8fb85902ed8652fb1a56ab
; inner loop: 36 instructions, 10 products, 7 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 vpbroadcastb (%r0,%r1), %xmm0
 vpmovsxbd -8(%r2,%r3), %ymm1
 vpmovzxbd %xmm0, %ymm0
 vpmaddwd %ymm0, %ymm1, %ymm2
 vpaddd %ymm3, %ymm2, %ymm3
 vpmovsxbd (%r2,%r3), %ymm2
 vpmaddwd %ymm2, %ymm0, %ymm0
 vpaddd %ymm4, %ymm0, %ymm4
 vpbroadcastb 64(%r0,%r1), %xmm0
 vpmovzxbd %xmm0, %ymm0
 vpmaddwd %ymm0, %ymm1, %ymm5
 vpaddd %ymm6, %ymm5, %ymm6
 vpmaddwd %ymm2, %ymm0, %ymm5
 vpaddd %ymm5, %ymm7, %ymm7
 vpbroadcastb 128(%r0,%r1), %xmm5
 vpmovzxbd %xmm5, %ymm5
 vpmaddwd %ymm5, %ymm1, %ymm0
 vpaddd %ymm0, %ymm8, %ymm8
 vpmaddwd %ymm2, %ymm5, %ymm5
 vpaddd %ymm5, %ymm9, %ymm9
 vpbroadcastb 192(%r0,%r1), %xmm5
 vpmovzxbd %xmm5, %ymm5
 vpmaddwd %ymm5, %ymm1, %ymm0
 vpaddd %ymm0, %ymm10, %ymm10
 vpmaddwd %ymm2, %ymm5, %ymm5
 vpaddd %ymm5, %ymm11, %ymm11
 vpbroadcastb 256(%r0,%r1), %xmm5
 vpmovzxbd %xmm5, %ymm5
 vpmaddwd %ymm5, %ymm1, %ymm0
 vpaddd %ymm0, %ymm12, %ymm12
 vpmaddwd %ymm2, %ymm5, %ymm2
 vpaddd %ymm2, %ymm13, %ymm13
 addq $16, %r3
 incq %r1
 cmpq $3080, %r3
 jne L0
