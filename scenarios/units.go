package scenarios

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bytes is a number of bytes in paper units unless the field's name says "emulated". Text spells it
// with a unit: 5GB (10^9), 256KiB (2^10), 1448B. JSON carries the plain number.
type Bytes int64

// BitsPerSecond is a link or flow rate in bits per second. Text spells it with a unit: 100Gbps,
// 100Gbit/s, or in bytes: 450GB/s, 3.125GBps (8 bits per byte). JSON carries the plain number.
type BitsPerSecond int64

// BytesPerSecond returns the rate in bytes per second.
func (r BitsPerSecond) BytesPerSecond() float64 { return float64(r) / 8 }

// String is the shortest exact spelling, such as 64KiB or 1.34217728GB.
// ParseBytes reads it back for any value that is not negative.
func (b Bytes) String() string { return shortest(int64(b), sizeUnits) }

// String is the shortest exact spelling in bits, such as 3.6Tbps.
// ParseBitsPerSecond reads it back for any value above 0.
func (r BitsPerSecond) String() string { return shortest(int64(r), rateUnits) }

const (
	kilo, mega, giga, tera = 1e3, 1e6, 1e9, 1e12
	kibi, mebi, gibi, tebi = 1 << 10, 1 << 20, 1 << 30, 1 << 40
)

// unit is a spelling and what it multiplies by.
type unit struct {
	name  string
	times int64
}

// sizeUnits in the order in which String prefers them among equally short ones.
var sizeUnits = []unit{
	{"TB", tera}, {"GB", giga}, {"MB", mega}, {"kB", kilo}, {"B", 1},
	{"TiB", tebi}, {"GiB", gibi}, {"MiB", mebi}, {"KiB", kibi},
}

// rateUnits are the canonical spellings, for String.
var rateUnits = []unit{{"Tbps", tera}, {"Gbps", giga}, {"Mbps", mega}, {"kbps", kilo}, {"bps", 1}}

// rateSpellings is the table of every accepted unit of a rate. Case counts, because b is a bit and
// B a byte; only units with the whole word bit may be all lower case (gbit), as tc writes them.
var rateSpellings = []struct {
	units         []string
	bitsPerSecond int64
}{
	{[]string{"bps", "bit/s", "bit"}, 1},
	{[]string{"kbps", "kbit/s", "kbit"}, kilo},
	{[]string{"Mbps", "Mbit/s", "Mbit", "mbit/s", "mbit"}, mega},
	{[]string{"Gbps", "Gbit/s", "Gbit", "gbit/s", "gbit"}, giga},
	{[]string{"Tbps", "Tbit/s", "Tbit", "tbit/s", "tbit"}, tera},
	{[]string{"B/s"}, 8},
	{[]string{"kB/s", "KB/s", "kBps", "KBps"}, 8 * kilo},
	{[]string{"MB/s", "MBps"}, 8 * mega},
	{[]string{"GB/s", "GBps"}, 8 * giga},
	{[]string{"TB/s", "TBps"}, 8 * tera},
	{[]string{"KiB/s"}, 8 * kibi},
	{[]string{"MiB/s"}, 8 * mebi},
	{[]string{"GiB/s"}, 8 * gibi},
	{[]string{"TiB/s"}, 8 * tebi},
}

// quantity is a kind of number with a unit, in the words of its errors.
type quantity struct{ what, example, whole string }

var (
	aRate         = quantity{"a rate", "25Gbps (bits) or 3.125GB/s (bytes)", "bits per second"}
	aSize         = quantity{"a size", "5GB, 256KiB or 1448B", "bytes"}
	aTime         = quantity{"a time", "1.5s, 100ms or 8us", "nanoseconds"}
	anArrivalRate = quantity{"an arrival rate", "4/s", ""}
)

// maxQuantity bounds the text of a quantity, so that no input costs much time;
// the longest sensible one has about 30 characters.
const maxQuantity = 64

// A quantity is a decimal number without sign or exponent, at most one space,
// and a unit that starts with a letter.
var quantityPattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-zµ/].*)?$`)

// exponent is what quantityPattern takes for the unit in "25e9".
var exponent = regexp.MustCompile(`^[eE][+-]*[0-9]`)

// split splits "3.125 GB/s" into number and unit.
func (q quantity) split(text string) (number, unit string, err error) {
	m := quantityPattern.FindStringSubmatch(text)
	switch {
	case len(text) > maxQuantity:
		return "", "", fmt.Errorf("%s has %d characters; write it like %s", q.what, len(text), q.example)
	case m == nil:
		return "", "", fmt.Errorf("%s; write %s like %s", badNumber(text), q.what, q.example)
	case m[2] == "":
		return "", "", fmt.Errorf("%s needs a unit; write it like %s", q.what, q.example)
	case exponent.MatchString(m[2]):
		return "", "", fmt.Errorf("exponents are not read and the unit is missing; write %s like %s", q.what, q.example)
	}
	return m[1], m[2], nil
}

// badNumber says what is wrong with a text that does not start with a plain number.
func badNumber(text string) string {
	switch lower := strings.ToLower(strings.TrimLeft(text, "+-.")); {
	case text == "":
		return "empty"
	case strings.HasPrefix(text, "-"):
		return "negative"
	case strings.HasPrefix(lower, "nan"), strings.HasPrefix(lower, "inf"):
		return "not a finite number"
	default:
		return "not a plain decimal number with a unit"
	}
}

// times multiplies exactly: the number is never turned into a float, so 3.125GB/s is exact.
// The product must be whole and fit an int64.
func (q quantity) times(number string, unit int64) (int64, error) {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("not a number: %s", number)
	}
	switch r.Mul(r, big.NewRat(unit, 1)); {
	case !r.IsInt():
		return 0, fmt.Errorf("%s must be a whole number of %s", q.what, q.whole)
	case !r.Num().IsInt64():
		return 0, q.tooLarge()
	}
	return r.Num().Int64(), nil
}

func (q quantity) tooLarge() error { return fmt.Errorf("%s: too large", q.what) }

// shortest writes n in the unit that needs the fewest characters, the earlier
// unit among equals, without fractions below 1: 100Gbps, not 0.1Tbps.
func shortest(n int64, units []unit) string {
	best := ""
	for _, u := range units {
		r := big.NewRat(n, u.times)
		places, exact := r.FloatPrec()
		number := r.FloatString(places)
		if !exact || n != 0 && strings.HasPrefix(strings.TrimPrefix(number, "-"), "0.") {
			continue
		}
		if text := number + u.name; best == "" || len(text) < len(best) {
			best = text
		}
	}
	return best
}

// ParseBitsPerSecond reads a rate: a plain decimal, at most one space, and one
// of the units of the reference page. The result is exact and above 0. An ambiguous
// text is refused, and the error says what to write.
func ParseBitsPerSecond(text string) (BitsPerSecond, error) {
	number, name, err := aRate.split(text)
	if err != nil {
		return 0, err
	}
	for _, row := range rateSpellings {
		if slices.Contains(row.units, name) {
			n, err := aRate.times(number, row.bitsPerSecond)
			if err == nil && n == 0 {
				err = errors.New("a rate must be above 0")
			}
			return BitsPerSecond(n), err
		}
	}
	return 0, rateUnitError(number, name)
}

// rateUnitError explains a unit that is not in the table. For spellings that
// people and other tools use, it says what to write instead.
func rateUnitError(num, name string) error {
	binary := strings.TrimSuffix(strings.ToUpper(name[:1]), "B")
	prefix := strings.Replace(binary, "K", "k", 1)
	write := func(why, bytes string) error {
		return fmt.Errorf("%s; write %s%sbps (bits) or %s%s (bytes)", why, num, prefix, num, bytes)
	}
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, "ibps"), strings.HasSuffix(lower, "ibit"), strings.HasSuffix(lower, "ibit/s"):
		return write("binary prefixes are read on bytes only", binary+"iB/s")
	case slices.Contains([]string{"mbps", "gbps", "tbps"}, name):
		return write(fmt.Sprintf("unit %q is ambiguous: tc reads it as bytes", name), prefix+"B/s")
	case slices.Contains([]string{"b/s", "kb/s", "mb/s", "gb/s", "tb/s", "bps", "kbps"}, lower):
		return write(fmt.Sprintf("unit %q may mean bits or bytes", name), prefix+"B/s")
	case slices.ContainsFunc(sizeUnits, func(u unit) bool { return u.name == name }):
		return fmt.Errorf("%q is a size, not a rate; write %s%s/s for bytes per second", name, num, name)
	case slices.Contains([]string{"k", "m", "g", "t"}, lower):
		return write(fmt.Sprintf("unit %q is incomplete", name), prefix+"B/s")
	}
	return fmt.Errorf("unknown unit %q of a rate; write it like %s", name, aRate.example)
}

// ParseBytes reads a size: a plain decimal, at most one space, and one of B, kB (or KB), MB, GB, TB
// (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024). The result is exact and may be 0.
func ParseBytes(text string) (Bytes, error) {
	number, name, err := aSize.split(text)
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
	n, err := aSize.times(number, sizeUnits[i].times)
	return Bytes(n), err
}

// UnmarshalJSON reads a whole number of bytes, or a string as ParseBytes does.
func (b *Bytes) UnmarshalJSON(data []byte) (err error) {
	if len(data) >= 2 && data[0] == '"' {
		*b, err = ParseBytes(string(data[1 : len(data)-1])) // no unit has a character that JSON escapes
		return err
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("must be a whole number or a text with a unit, got %s", data)
	}
	*b = Bytes(n)
	return nil
}

// durationPart is one number and unit of "1h2m3.5s".
var durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)`)

// parseDuration reads Go's syntax (1h2m, 1.5s, 100ms, 8us), exactly and without
// a sign. A bare 0 needs a unit as every other number does.
func parseDuration(text string) (time.Duration, error) {
	if _, _, err := aTime.split(text); err != nil {
		return 0, err
	}
	total := int64(0)
	for rest := text; rest != ""; {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, fmt.Errorf("not a time; write it like %s (units: ns, us, ms, s, m, h)", aTime.example)
		}
		unit, err := time.ParseDuration("1" + m[2])
		if err != nil {
			return 0, err
		}
		n, err := aTime.times(m[1], int64(unit))
		if err != nil {
			return 0, err
		}
		if total += n; total < 0 {
			return 0, aTime.tooLarge()
		}
		rest = rest[len(m[0]):]
	}
	return time.Duration(total), nil
}

// formatDuration is Duration.String in ASCII without empty tails: 2m, 8us.
func formatDuration(d time.Duration) string {
	text := strings.ReplaceAll(d.String(), "µ", "u")
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// parsePerSecond reads an arrival rate: 4/s, 0.5/s.
func parsePerSecond(text string) (float64, error) {
	number, name, err := anArrivalRate.split(text)
	if err != nil {
		return 0, err
	}
	if name != "/s" {
		return 0, fmt.Errorf("unknown unit %q of an arrival rate; write it like 4/s", name)
	}
	return strconv.ParseFloat(number, 64)
}

// formatFloat writes a number so that it reads back as the same one, without exponent.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
