; generic.direct version 1 on x86-avxvnni
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=5, tile_blocks=2, outer=weights, unroll=1
; all code: 656 lines, sha256 425559435917e7b93bb7869607916045e99414e780759b6729c622102a536814
; inner loop: 26 instructions, 10 products, 7 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 vpmovsxbd -8(%r0,%r1), %ymm0
 vpbroadcastb (%r2,%r3), %xmm1
 vpmovzxbd %xmm1, %ymm1
 {vex} vpdpwssd %ymm0, %ymm1, %ymm2
 vpmovsxbd (%r0,%r1), %ymm3
 {vex} vpdpwssd %ymm3, %ymm1, %ymm4
 vpbroadcastb 64(%r2,%r3), %xmm1
 vpmovzxbd %xmm1, %ymm1
 vpbroadcastb 128(%r2,%r3), %xmm5
 {vex} vpdpwssd %ymm0, %ymm1, %ymm6
 {vex} vpdpwssd %ymm3, %ymm1, %ymm7
 vpmovzxbd %xmm5, %ymm5
 {vex} vpdpwssd %ymm0, %ymm5, %ymm8
 {vex} vpdpwssd %ymm3, %ymm5, %ymm9
 vpbroadcastb 192(%r2,%r3), %xmm5
 vpmovzxbd %xmm5, %ymm5
 vpbroadcastb 256(%r2,%r3), %xmm1
 {vex} vpdpwssd %ymm0, %ymm5, %ymm10
 {vex} vpdpwssd %ymm3, %ymm5, %ymm11
 vpmovzxbd %xmm1, %ymm5
 {vex} vpdpwssd %ymm0, %ymm5, %ymm12
 {vex} vpdpwssd %ymm3, %ymm5, %ymm13
 addq $16, %r1
 incq %r3
 cmpq $3080, %r1
 jne L0
