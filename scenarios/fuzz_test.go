package scenarios

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzParse checks the laws of the package for any input: no panic; every
// error consists of *Error with a place; an accepted file is the same after Marshal.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, _ := Embedded(name)
		f.Add(data)
		if s, err := Parse(name+".yaml", data); err == nil {
			resolved, err := s.Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(resolved)
		}
	}
	for _, text := range []string{
		"", "~", "- a", "name: 010", "name: &a b\ndescription: *a", "a: &a [*a]", "policies: [cla*, {name: cla, cacheWeight: 0}]", "\xef\xbb\xbfname: x",
		"topology: {nicRate: 3.125GB/s, linkRates: {rackUplink: 33.333Gbps}}", "topology:\n\tpods: 1", "name: a\n---\nname: b", "model: {latentDim: 576}",
		"workload: {flows: {list: [{start: 1us, from: i0, to: i1, bytes: 1B, via: [tor0-0]}]}}", "description: \"a\\n b \\u2028\"", "description: |+\n  a\n\n",
		"placement: {prefill: [0], decode: [1]}", "model: {bytesPerElement: 3}", "workload: {synthetic: {arrivals: bursty, sigma: 1e-300}}", "slo: {ttft: 1h0.000000001s}",
		"topology: &t {pods: 2}\nplacement: {<<: *t}", "seeds: [18446744073709551615]", "description: !!binary aGk=", "oracle: {noise: 1e-30}", "model: {preset: deepseek-v3, kvHeads: 8, headDim: 1}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data)
		if err != nil {
			var fault *Error
			if !errors.As(err, &fault) || len(faultsOf(err)) == 0 {
				t.Fatalf("an error without a place: %v", err)
			}
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatalf("accepted, but not valid: %v", err)
		}
		once, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("fuzz.yaml", once)
		if err != nil {
			t.Fatalf("does not survive Marshal: %v\n%s", err, once)
		}
		twice, err := back.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once, twice) {
			t.Fatalf("Marshal is not canonical:\n%s\n%s", once, twice)
		}
	})
}

// FuzzQuantities: a quantity that was read is the same after writing and reading again.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"25Gbps", "3.125GB/s", "25gbps", "64KiB", "1.5s", "1h2m", "4/s", "0", "NaN", "9223372036854775807B", "0.000000000000000001TB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseBitsPerSecond(text); err == nil {
			if back, err := ParseBitsPerSecond(r.String()); err != nil || back != r || r <= 0 {
				t.Fatalf("%q: %v, then %v, %v", text, r, back, err)
			}
		}
		if b, err := ParseBytes(text); err == nil {
			if back, err := ParseBytes(b.String()); err != nil || back != b || b < 0 {
				t.Fatalf("%q: %v, then %v, %v", text, b, back, err)
			}
		}
		if d, err := parseDuration(text); err == nil {
			if back, err := parseDuration(formatDuration(d)); err != nil || back != d || d < 0 {
				t.Fatalf("%q: %v, then %v, %v", text, d, back, err)
			}
		}
	})
}
