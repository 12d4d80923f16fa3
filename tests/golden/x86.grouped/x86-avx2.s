; x86.grouped version 3 on x86-avx2
; conv2d-u8s8-1x14x14x64-k3x3x64-s1-p0-g16-float.c-u8
; tile_columns=6, tile_registers=2, outer=weights, border=skip, order=registers, fetch=next
; all code: 623 lines, sha256 47b7a045b5455967baa8ed10db6b1858e62c164b0a73b611d38ea75b378de9ce
; inner loop: 254 instructions, 72 products, 54 loads, 18 stores; on the stack 18 loads, 18 stores
L0:
 vmovups %ymm0, [stack+0]
 vmovups %ymm1, [stack+1]
 vmovups %ymm2, [stack+2]
 vmovdqa -448(%r0), %xmm3
 vmovdqu %ymm3, [stack+3]
 vpermd %ymm3, %ymm4, %ymm5
 vpand %ymm6, %ymm5, %ymm7
 vmovdqa -352(%r1,%r2), %ymm8
 vpmaddwd %ymm7, %ymm8, %ymm7
 vpaddd %ymm7, %ymm9, %ymm7
 vmovdqa -320(%r1,%r2), %ymm10
 vpsrlw $8, %ymm5, %ymm5
 vpmaddwd %ymm5, %ymm10, %ymm11
 vmovdqa -224(%r1,%r2), %ymm12
 vmovdqa -384(%r0), %xmm5
 vmovdqu %ymm5, [stack+4]
 vmovdqa C0(%rip), %ymm3
 vpermd %ymm5, %ymm3, %ymm13
 vpand %ymm6, %ymm13, %ymm2
 vpmaddwd %ymm12, %ymm2, %ymm1
 vpaddd %ymm11, %ymm1, %ymm11
 vpaddd %ymm11, %ymm7, %ymm1
 vpmaddwd %ymm8, %ymm2, %ymm7
 vpaddd %ymm7, %ymm14, %ymm9
 vpsrlw $8, %ymm13, %ymm2
 vmovdqa -192(%r1,%r2), %ymm0
 vmovdqa -96(%r1,%r2), %ymm15
 vmovdqa -320(%r0), %xmm5
 vmovdqu %ymm5, [stack+5]
 vpmaddwd %ymm0, %ymm2, %ymm11
 vmovdqa C0(%rip), %ymm3
 vpermd %ymm5, %ymm3, %ymm13
 vpand %ymm6, %ymm13, %ymm14
 vpmaddwd %ymm15, %ymm14, %ymm3
 vpaddd %ymm3, %ymm11, %ymm3
 vpsrlw $8, %ymm13, %ymm13
 vmovdqa -64(%r1,%r2), %ymm11
 vmovdqa %ymm6, %ymm4
 vpmaddwd %ymm11, %ymm13, %ymm6
 vpaddd %ymm6, %ymm3, %ymm3
 vpaddd %ymm3, %ymm1, %ymm3
 vmovdqu %ymm3, [stack+6]
 vpmaddwd %ymm10, %ymm2, %ymm6
 vpmaddwd %ymm12, %ymm14, %ymm2
 vpaddd %ymm6, %ymm2, %ymm6
 vpaddd %ymm6, %ymm9, %ymm9
 vpmaddwd %ymm8, %ymm14, %ymm6
 vpaddd [stack+7], %ymm6, %ymm6
 vmovdqa -256(%r0), %xmm5
 vmovdqu %ymm5, [stack+8]
 vpmaddwd %ymm13, %ymm0, %ymm1
 vmovdqa C0(%rip), %ymm3
 vpermd %ymm5, %ymm3, %ymm14
 vpand %ymm4, %ymm14, %ymm3
 vpmaddwd %ymm3, %ymm15, %ymm5
 vpaddd %ymm5, %ymm1, %ymm5
 vpsrlw $8, %ymm14, %ymm14
 vpmaddwd %ymm11, %ymm14, %ymm1
 vpaddd %ymm5, %ymm1, %ymm5
 vpaddd %ymm5, %ymm9, %ymm5
 vmovdqu %ymm5, [stack+9]
 vpmaddwd %ymm13, %ymm10, %ymm5
 vpmaddwd %ymm3, %ymm12, %ymm13
 vpaddd %ymm13, %ymm5, %ymm5
 vpaddd %ymm5, %ymm6, %ymm5
 vpmaddwd %ymm3, %ymm8, %ymm3
 vpaddd [stack+10], %ymm3, %ymm3
 vpmaddwd %ymm0, %ymm14, %ymm6
 vmovdqa -192(%r0), %xmm9
 vmovdqu %ymm9, [stack+11]
 vmovdqa C0(%rip), %ymm7
 vpermd %ymm9, %ymm7, %ymm13
 vpand %ymm4, %ymm13, %ymm9
 vpmaddwd %ymm9, %ymm15, %ymm7
 vpaddd %ymm7, %ymm6, %ymm7
 vpsrlw $8, %ymm13, %ymm6
 vpmaddwd %ymm11, %ymm6, %ymm13
 vpaddd %ymm13, %ymm7, %ymm7
 vpaddd %ymm7, %ymm5, %ymm5
 vmovdqu %ymm5, [stack+7]
 vpmaddwd %ymm10, %ymm14, %ymm5
 vpmaddwd %ymm9, %ymm12, %ymm7
 vpaddd %ymm7, %ymm5, %ymm5
 vpaddd %ymm5, %ymm3, %ymm3
 vpmaddwd %ymm9, %ymm8, %ymm5
 vpaddd [stack+12], %ymm5, %ymm5
 vpmaddwd %ymm6, %ymm0, %ymm7
 vmovdqa -128(%r0), %xmm13
 vmovdqu %ymm13, [stack+13]
 vmovdqa C0(%rip), %ymm9
 vpermd %ymm13, %ymm9, %ymm9
 vpand %ymm4, %ymm9, %ymm13
 vpmaddwd %ymm13, %ymm15, %ymm2
 vpaddd %ymm7, %ymm2, %ymm7
 vpsrlw $8, %ymm9, %ymm9
 vpmaddwd %ymm11, %ymm9, %ymm2
 vpaddd %ymm7, %ymm2, %ymm7
 vpaddd %ymm7, %ymm3, %ymm3
 vmovdqu %ymm3, [stack+10]
 vpmaddwd %ymm6, %ymm10, %ymm3
 vpmaddwd %ymm13, %ymm12, %ymm7
 vpaddd %ymm7, %ymm3, %ymm3
 vpaddd %ymm3, %ymm5, %ymm3
 vpmaddwd %ymm13, %ymm8, %ymm5
 vpaddd [stack+14], %ymm5, %ymm5
 vpmaddwd %ymm9, %ymm10, %ymm7
 vpmaddwd %ymm9, %ymm0, %ymm9
 vmovdqa -64(%r0), %xmm8
 vmovdqa C0(%rip), %ymm6
 vpermd %ymm8, %ymm6, %ymm6
 vpand %ymm4, %ymm6, %ymm13
 vpmaddwd %ymm13, %ymm15, %ymm2
 vpaddd %ymm9, %ymm2, %ymm9
 vpsrlw $8, %ymm6, %ymm6
 vpmaddwd %ymm11, %ymm6, %ymm2
 vpaddd %ymm9, %ymm2, %ymm9
 vpaddd %ymm9, %ymm3, %ymm3
 vmovdqu %ymm3, [stack+12]
 vpmaddwd %ymm13, %ymm12, %ymm3
 vpaddd %ymm3, %ymm7, %ymm3
 vpaddd %ymm3, %ymm5, %ymm3
 vpmaddwd %ymm6, %ymm0, %ymm5
 vmovdqa (%r0), %xmm12
 vmovdqa C0(%rip), %ymm7
 vpermd %ymm12, %ymm7, %ymm7
 vpand %ymm4, %ymm7, %ymm9
 vpmaddwd %ymm9, %ymm15, %ymm9
 vpaddd %ymm9, %ymm5, %ymm5
 vpsrlw $8, %ymm7, %ymm7
 vpmaddwd %ymm11, %ymm7, %ymm7
 vpaddd %ymm7, %ymm5, %ymm5
 vpaddd %ymm5, %ymm3, %ymm3
 vmovdqu %ymm3, [stack+14]
 vmovdqa C1(%rip), %ymm3
 vpermd [stack+3], %ymm3, %ymm3
 vmovdqa -288(%r1,%r2), %ymm11
 vpand %ymm4, %ymm3, %ymm5
 vpmaddwd %ymm11, %ymm5, %ymm5
 vpaddd [stack+15], %ymm5, %ymm7
 vpsrlw $8, %ymm3, %ymm3
 vmovdqa -256(%r1,%r2), %ymm6
 vpmaddwd %ymm6, %ymm3, %ymm3
 vmovdqa C1(%rip), %ymm5
 vpermd [stack+4], %ymm5, %ymm9
 vmovdqa -160(%r1,%r2), %ymm5
 vpand %ymm4, %ymm9, %ymm13
 vpmaddwd %ymm5, %ymm13, %ymm2
 vpaddd %ymm3, %ymm2, %ymm3
 vpaddd %ymm3, %ymm7, %ymm3
 vpmaddwd %ymm11, %ymm13, %ymm7
 vpaddd [stack+16], %ymm7, %ymm13
 vpsrlw $8, %ymm9, %ymm9
 vmovdqa C1(%rip), %ymm7
 vpermd [stack+5], %ymm7, %ymm2
 vmovdqa -128(%r1,%r2), %ymm15
 vmovdqa -32(%r1,%r2), %ymm7
 vpmaddwd %ymm9, %ymm15, %ymm10
 vpand %ymm4, %ymm2, %ymm0
 vpmaddwd %ymm7, %ymm0, %ymm1
 vpaddd %ymm1, %ymm10, %ymm1
 vpsrlw $8, %ymm2, %ymm2
 vmovdqa (%r1,%r2), %ymm10
 vpmaddwd %ymm10, %ymm2, %ymm14
 vpaddd %ymm14, %ymm1, %ymm1
 vpaddd %ymm3, %ymm1, %ymm3
 vmovdqu %ymm3, [stack+15]
 vpmaddwd %ymm6, %ymm9, %ymm3
 vpmaddwd %ymm5, %ymm0, %ymm9
 vpaddd %ymm9, %ymm3, %ymm3
 vpaddd %ymm3, %ymm13, %ymm3
 vpmaddwd %ymm11, %ymm0, %ymm9
 vpaddd [stack+17], %ymm9, %ymm9
 vmovdqa C1(%rip), %ymm13
 vpermd [stack+8], %ymm13, %ymm13
 vpmaddwd %ymm15, %ymm2, %ymm1
 vpand %ymm4, %ymm13, %ymm14
 vpmaddwd %ymm7, %ymm14, %ymm0
 vpaddd %ymm0, %ymm1, %ymm1
 vpsrlw $8, %ymm13, %ymm13
 vpmaddwd %ymm13, %ymm10, %ymm0
 vpaddd %ymm0, %ymm1, %ymm1
 vpaddd %ymm3, %ymm1, %ymm3
 vmovdqu %ymm3, [stack+16]
 vpmaddwd %ymm6, %ymm2, %ymm3
 vpmaddwd %ymm5, %ymm14, %ymm2
 vpaddd %ymm3, %ymm2, %ymm3
 vpaddd %ymm3, %ymm9, %ymm3
 vpmaddwd %ymm11, %ymm14, %ymm9
 vpaddd [stack+0], %ymm9, %ymm9
 vmovdqa C1(%rip), %ymm2
 vpermd [stack+11], %ymm2, %ymm2
 vpmaddwd %ymm13, %ymm15, %ymm1
 vpand %ymm4, %ymm2, %ymm14
 vpmaddwd %ymm7, %ymm14, %ymm0
 vpaddd %ymm0, %ymm1, %ymm1
 vpsrlw $8, %ymm2, %ymm2
 vpmaddwd %ymm10, %ymm2, %ymm0
 vpaddd %ymm0, %ymm1, %ymm1
 vpaddd %ymm3, %ymm1, %ymm3
 vmovdqu %ymm3, [stack+17]
 vpmaddwd %ymm6, %ymm13, %ymm3
 vpmaddwd %ymm5, %ymm14, %ymm13
 vpaddd %ymm13, %ymm3, %ymm3
 vpaddd %ymm3, %ymm9, %ymm3
 vpmaddwd %ymm11, %ymm14, %ymm9
 vpaddd [stack+1], %ymm9, %ymm9
 vmovdqa C1(%rip), %ymm13
 vpermd [stack+13], %ymm13, %ymm13
 vpmaddwd %ymm15, %ymm2, %ymm1
 vpand %ymm4, %ymm13, %ymm14
 vpmaddwd %ymm7, %ymm14, %ymm0
 vpaddd %ymm0, %ymm1, %ymm1
 vpsrlw $8, %ymm13, %ymm13
 vpmaddwd %ymm13, %ymm10, %ymm0
 vpaddd %ymm0, %ymm1, %ymm1
 vpaddd %ymm3, %ymm1, %ymm0
 vpmaddwd %ymm6, %ymm2, %ymm3
 vpmaddwd %ymm5, %ymm14, %ymm2
 vpaddd %ymm3, %ymm2, %ymm3
 vpaddd %ymm3, %ymm9, %ymm3
 vpmaddwd %ymm11, %ymm14, %ymm9
 vmovups [stack+9], %ymm14
 vpaddd [stack+2], %ymm9, %ymm9
 vpmaddwd %ymm6, %ymm13, %ymm11
 vpmaddwd %ymm13, %ymm15, %ymm6
 vmovdqa C1(%rip), %ymm13
 vpermd %ymm8, %ymm13, %ymm13
 vpand %ymm4, %ymm13, %ymm2
 vpmaddwd %ymm7, %ymm2, %ymm1
 vpaddd %ymm6, %ymm1, %ymm6
 vpsrlw $8, %ymm13, %ymm13
 vpmaddwd %ymm13, %ymm10, %ymm1
 vpaddd %ymm6, %ymm1, %ymm6
 vpaddd %ymm6, %ymm3, %ymm1
 vmovdqa %ymm4, %ymm6
 vpmaddwd %ymm5, %ymm2, %ymm3
 vpaddd %ymm3, %ymm11, %ymm3
 vpaddd %ymm3, %ymm9, %ymm3
 vpmaddwd %ymm13, %ymm15, %ymm5
 vmovdqa C1(%rip), %ymm4
 vpermd %ymm12, %ymm4, %ymm9
 vpand %ymm6, %ymm9, %ymm11
 vpmaddwd %ymm7, %ymm11, %ymm7
 vmovdqa C0(%rip), %ymm4
 vpaddd %ymm7, %ymm5, %ymm5
 vpsrlw $8, %ymm9, %ymm7
 vmovups [stack+6], %ymm9
 vpmaddwd %ymm7, %ymm10, %ymm7
 vpaddd %ymm7, %ymm5, %ymm5
 vpaddd %ymm5, %ymm3, %ymm2
 addq $384, %r2
 addq $896, %r0
 cmpq $1504, %r2
 jne L0
