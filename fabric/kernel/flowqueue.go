package kernel

import (
	"math/bits"

	"golang.org/x/net/bpf"
)

// flowClassifier is the classic BPF program that leads an Ethernet frame of IPv4 to the
// queue of its flow: class 1 to queues of the qdisc with the given handle, by a hash of
// addresses and ports. queues is a power of two, at most 2^15. IP options, which
// nothing here sends, would be taken for ports.
func flowClassifier(handle uint32, queues int) []bpf.RawInstruction {
	const ethernet, source, destination, ports = 14, 12, 16, 20 // offsets; the last three in the IP header
	// Each product spreads its factor over the bits above; only the topmost are used.
	const a, b, c = 0x9e3779b1, 0x85ebca77, 0xc2b2ae3d // large odd numbers
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: ethernet + source, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: a},
		bpf.StoreScratch{Src: bpf.RegA, N: 0},
		bpf.LoadAbsolute{Off: ethernet + destination, Size: 4},
		bpf.LoadScratch{Dst: bpf.RegX, N: 0},
		bpf.ALUOpX{Op: bpf.ALUOpAdd},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: b},
		bpf.StoreScratch{Src: bpf.RegA, N: 0},
		bpf.LoadAbsolute{Off: ethernet + ports, Size: 4},
		bpf.LoadScratch{Dst: bpf.RegX, N: 0},
		bpf.ALUOpX{Op: bpf.ALUOpAdd},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: c},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: uint32(32 - bits.Len(uint(queues-1)))},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: handle | 1},
		bpf.RetA{},
	})
	if err != nil {
		panic("kernel: the classifier of flows does not assemble: " + err.Error()) // constants all
	}
	return program
}
