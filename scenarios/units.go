package scenarios

// Bytes is a number of bytes in paper units unless the field's name says
// "emulated". YAML spells it with a unit: 5GB (10^9), 256KiB (2^10), 1448B.
type Bytes int64

// BitsPerSecond is a link or flow rate in bits per second. YAML spells it with a
// unit: 100Gbps, 100Gbit/s, or in bytes: 450GB/s, 3.125GBps (8 bits a byte).
type BitsPerSecond int64

// BytesPerSecond returns the rate in bytes per second.
func (r BitsPerSecond) BytesPerSecond() float64 { return float64(r) / 8 }
