package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bytes is a number of bytes in paper units unless the field's name says
// "emulated". Text spells it with a unit: 5GB (10^9), 256KiB (2^10), 1448B.
// JSON carries the plain number.
type Bytes int64

// BitsPerSecond is a link or flow rate in bits per second. Text spells it with a
// unit: 100Gbps, 100Gbit/s, or in bytes: 450GB/s, 3.125GBps (8 bits per byte).
// JSON carries the plain number.
type BitsPerSecond int64

// BytesPerSecond returns the rate in bytes per second.
func (r BitsPerSecond) BytesPerSecond() float64 { return float64(r) / 8 }

const (
	kilo, mega, giga, tera = 1e3, 1e6, 1e9, 1e12
	kibi, mebi, gibi, tebi = 1 << 10, 1 << 20, 1 << 30, 1 << 40
)

// sizeUnits in the order in which String prefers them among equally short ones.
var sizeUnits = []unit{
	{"TB", tera}, {"GB", giga}, {"MB", mega}, {"kB", kilo}, {"B", 1},
	{"TiB", tebi}, {"GiB", gibi}, {"MiB", mebi}, {"KiB", kibi},
}

// rateUnits are the canonical spellings, for String.
var rateUnits = []unit{{"Tbps", tera}, {"Gbps", giga}, {"Mbps", mega}, {"kbps", kilo}, {"bps", 1}}

// RateSpelling is one row of the table of accepted rate units.
type RateSpelling struct {
	// Units are the accepted spellings; case counts.
	Units []string
	// BitsPerSecond is the value of one of them.
	BitsPerSecond int64
}

// RateSpellings is the table of every accepted unit of a rate. Case counts,
// because b is a bit and B a byte; only units with the whole word bit may be all lower
// case (gbit), as tc writes them.
func RateSpellings() []RateSpelling {
	rows := []RateSpelling{
		{[]string{"bps", "bit/s", "bit"}, 1},
		{[]string{"kbps", "kbit/s", "kbit"}, kilo},
	}
	for _, u := range []unit{{"M", mega}, {"G", giga}, {"T", tera}} {
		low := strings.ToLower(u.name)
		rows = append(rows, RateSpelling{[]string{u.name + "bps", u.name + "bit/s", u.name + "bit", low + "bit/s", low + "bit"}, u.times})
	}
	rows = append(rows, RateSpelling{[]string{"B/s"}, 8}, RateSpelling{[]string{"kB/s", "KB/s", "kBps", "KBps"}, 8 * kilo})
	for _, u := range []unit{{"M", mega}, {"G", giga}, {"T", tera}} {
		rows = append(rows, RateSpelling{[]string{u.name + "B/s", u.name + "Bps"}, 8 * u.times})
	}
	for _, u := range []unit{{"K", kibi}, {"M", mebi}, {"G", gibi}, {"T", tebi}} {
		rows = append(rows, RateSpelling{[]string{u.name + "iB/s"}, 8 * u.times})
	}
	return rows
}

// rateTable is RateSpellings by spelling; it never changes.
var rateTable = func() map[string]int64 {
	t := map[string]int64{}
	for _, row := range RateSpellings() {
		for _, name := range row.Units {
			t[name] = row.BitsPerSecond
		}
	}
	return t
}()

const (
	rateExample = "25Gbps (bits) or 3.125GB/s (bytes)"
	sizeExample = "5GB, 256KiB or 1448B"
)

// ParseBitsPerSecond reads a rate: a plain decimal, at most one space, and one
// of the units of RateSpellings. The result is exact and above 0. An ambiguous
// text is refused, and the error says what to write.
func ParseBitsPerSecond(text string) (BitsPerSecond, error) {
	num, name, err := splitQuantity(text, "a rate", rateExample)
	if err != nil {
		return 0, err
	}
	times, ok := rateTable[name]
	if !ok {
		return 0, rateUnitError(strings.TrimSuffix(num.whole+"."+num.frac, "."), name)
	}
	n, err := num.times(times)
	switch {
	case errors.Is(err, errNotWhole):
		return 0, fmt.Errorf("a rate must be a whole number of bits per second")
	case err != nil:
		return 0, fmt.Errorf("a rate: %w", err)
	case n == 0:
		return 0, fmt.Errorf("a rate must be above 0")
	}
	return BitsPerSecond(n), nil
}

// rateUnitError explains a unit that is not in the table. For spellings that
// people and other tools use, it says what to write instead.
func rateUnitError(num, name string) error {
	upper := strings.ToUpper(name[:1])
	write := func(why, bits, bytes string) error {
		return fmt.Errorf("%s; write %s%s (bits) or %s%s (bytes)", why, num, bits, num, bytes)
	}
	prefix := strings.TrimSuffix(upper, "B")
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, "ibps"), strings.HasSuffix(lower, "ibit"), strings.HasSuffix(lower, "ibit/s"):
		return write("binary prefixes are read on bytes only", prefix+"bps", prefix+"iB/s")
	case slices.Contains([]string{"mbps", "gbps", "tbps"}, name):
		return write(fmt.Sprintf("unit %q is ambiguous: tc reads it as bytes", name), prefix+"bps", prefix+"B/s")
	case slices.Contains([]string{"b/s", "kb/s", "mb/s", "gb/s", "tb/s", "bps", "kbps"}, lower):
		si := map[string]string{"K": "k"}
		if s, ok := si[prefix]; ok {
			prefix = s
		}
		return write(fmt.Sprintf("unit %q may mean bits or bytes", name), prefix+"bps", prefix+"B/s")
	case slices.ContainsFunc(sizeUnits, func(u unit) bool { return u.name == name }):
		return fmt.Errorf("%q is a size, not a rate; write %s%s/s for bytes per second", name, num, name)
	case slices.Contains([]string{"k", "m", "g", "t"}, lower):
		return write(fmt.Sprintf("unit %q is incomplete", name), prefix+"bps", prefix+"B/s")
	}
	return fmt.Errorf("unknown unit %q of a rate; write it like %s", name, rateExample)
}

// ParseBytes reads a size: a plain decimal, at most one space, and one of B,
// kB (or KB), MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
// The result is exact and may be 0.
func ParseBytes(text string) (Bytes, error) {
	num, name, err := splitQuantity(text, "a size", sizeExample)
	if err != nil {
		return 0, err
	}
	if name == "KB" {
		name = "kB"
	}
	i := slices.IndexFunc(sizeUnits, func(u unit) bool { return u.name == name })
	if i < 0 {
		return 0, fmt.Errorf("unknown unit %q of a size; units are B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)", name)
	}
	n, err := num.times(sizeUnits[i].times)
	switch {
	case errors.Is(err, errNotWhole):
		return 0, fmt.Errorf("a size must be a whole number of bytes")
	case err != nil:
		return 0, fmt.Errorf("a size: %w", err)
	}
	return Bytes(n), nil
}

// String is the shortest exact spelling, such as 64KiB or 1.34217728GB.
// ParseBytes reads it back for any value that is not negative.
func (b Bytes) String() string { return shortest(int64(b), sizeUnits) }

// String is the shortest exact spelling in bits, such as 3.6Tbps.
// ParseBitsPerSecond reads it back for any value above 0.
func (r BitsPerSecond) String() string { return shortest(int64(r), rateUnits) }

// MarshalText is String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// MarshalText is String.
func (r BitsPerSecond) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseBytes.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBytes(string(text))
	return err
}

// UnmarshalText is ParseBitsPerSecond.
func (r *BitsPerSecond) UnmarshalText(text []byte) (err error) {
	*r, err = ParseBitsPerSecond(string(text))
	return err
}

// MarshalJSON writes the plain number of bytes, so that programs need no parser for units.
func (b Bytes) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(b), 10), nil }

// MarshalJSON writes the plain number of bits per second.
func (r BitsPerSecond) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(r), 10), nil
}

// UnmarshalJSON reads a whole number of bytes, or a string as ParseBytes does.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	return unmarshalNumber(data, (*int64)(b), b.UnmarshalText)
}

// UnmarshalJSON reads a whole number of bits per second, or a string as ParseBitsPerSecond does.
func (r *BitsPerSecond) UnmarshalJSON(data []byte) error {
	return unmarshalNumber(data, (*int64)(r), r.UnmarshalText)
}

func unmarshalNumber(data []byte, to *int64, text func([]byte) error) error {
	if len(data) >= 2 && data[0] == '"' {
		return text(data[1 : len(data)-1]) // no unit has a character that JSON escapes, except µ, which no size has
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("must be a whole number or a text with a unit, got %s", data)
	}
	*to = n
	return nil
}
