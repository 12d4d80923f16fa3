; generic.direct version 1 on x86-amx
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8
; tile_columns=7, tile_blocks=2, outer=weights, unroll=1
; all code: 626 lines, sha256 64308274452ed9b995e95aaefdf24ebd8c55a19fc46e694721bb8d12e838c8da
; inner loop: 33 instructions, 14 products, 9 loads, 0 stores; on the stack 0 loads, 0 stores
L0:
 vpmovsxbd -16(%r0), %zmm0
 vpbroadcastb -192(%r1,%r2), %xmm1
 vpmovzxbd %xmm1, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm2
 vpmovsxbd (%r0), %zmm3
 vpdpwssd %zmm3, %zmm1, %zmm4
 vpbroadcastb -128(%r1,%r2), %xmm1
 vpmovzxbd %xmm1, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm5
 vpdpwssd %zmm3, %zmm1, %zmm6
 vpbroadcastb -64(%r1,%r2), %xmm1
 vpmovzxbd %xmm1, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm7
 vpdpwssd %zmm3, %zmm1, %zmm8
 vpbroadcastb (%r1,%r2), %xmm1
 vpmovzxbd %xmm1, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm9
 vpdpwssd %zmm3, %zmm1, %zmm10
 vpbroadcastb 64(%r1,%r2), %xmm1
 vpmovzxbd %xmm1, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm11
 vpdpwssd %zmm3, %zmm1, %zmm12
 vpbroadcastb 128(%r1,%r2), %xmm1
 vpmovzxbd %xmm1, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm13
 vpbroadcastb 192(%r1,%r2), %xmm14
 vpdpwssd %zmm3, %zmm1, %zmm15
 vpmovzxbd %xmm14, %zmm1
 vpdpwssd %zmm0, %zmm1, %zmm16
 vpdpwssd %zmm3, %zmm1, %zmm17
 addq $32, %r0
 incq %r2
 jne L0
