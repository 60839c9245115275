package scenarios

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// maxQuantity bounds the text of a quantity, so that no input costs much time;
// the longest sensible one has about 30 characters.
const maxQuantity = 64

// A quantity is a decimal number without sign or exponent, at most one space,
// and a unit that starts with a letter.
var quantityPattern = regexp.MustCompile(`^([0-9]+)(?:\.([0-9]+))?( ?)([A-Za-zµ/].*)?$`)

// decimal is a number as typed: digits before and after the point. It is never
// turned into a float, so 3.125GB/s is exact.
type decimal struct{ whole, frac string }

// splitQuantity splits "3.125 GB/s" into number and unit. For the error, what names the
// kind of quantity and example is a correct spelling.
func splitQuantity(text, what, example string) (decimal, string, error) {
	if len(text) > maxQuantity {
		return decimal{}, "", fmt.Errorf("%s has %d characters; write it like %s", what, len(text), example)
	}
	m := quantityPattern.FindStringSubmatch(text)
	if m == nil {
		return decimal{}, "", fmt.Errorf("%s; write %s like %s", badNumber(text), what, example)
	}
	if m[4] == "" {
		return decimal{}, "", fmt.Errorf("%s needs a unit; write it like %s", what, example)
	}
	if isExponent(m[4]) {
		return decimal{}, "", fmt.Errorf("exponents are not read and the unit is missing; write %s like %s", what, example)
	}
	return decimal{m[1], m[2]}, m[4], nil
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

// isExponent reports whether the unit of "25e9" is the exponent "e9".
func isExponent(unit string) bool {
	rest := strings.TrimLeft(unit[1:], "+-")
	return (unit[0] == 'e' || unit[0] == 'E') && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

var (
	errNotWhole = errors.New("not a whole number")
	errTooLarge = errors.New("too large")
)

// times multiplies exactly. The product must be whole and fit an int64.
func (d decimal) times(unit int64) (int64, error) {
	n, ok := new(big.Int).SetString(d.whole+d.frac, 10)
	if !ok {
		return 0, fmt.Errorf("not a number: %s.%s", d.whole, d.frac)
	}
	n.Mul(n, big.NewInt(unit))
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(d.frac))), nil)
	q, rest := new(big.Int).QuoRem(n, ten, new(big.Int))
	if rest.Sign() != 0 {
		return 0, errNotWhole
	}
	if !q.IsInt64() {
		return 0, errTooLarge
	}
	return q.Int64(), nil
}

// exactDecimal writes n/unit as a decimal, or "" where 18 places are not enough
// (n/3 never ends, n/1024 does).
func exactDecimal(n, unit int64) string {
	r := big.NewRat(n, unit)
	if r.IsInt() {
		return r.Num().String()
	}
	text := strings.TrimRight(r.FloatString(18), "0")
	back, ok := new(big.Rat).SetString(text)
	if !ok || back.Cmp(r) != 0 {
		return ""
	}
	return text
}

// unit is a spelling and what it multiplies by.
type unit struct {
	name  string
	times int64
}

// shortest writes n in the unit that needs the fewest characters, the earlier
// unit among equals, without fractions below 1: 100Gbps, not 0.1Tbps.
func shortest(n int64, units []unit) string {
	best := ""
	for _, u := range units {
		number := exactDecimal(n, u.times)
		if number == "" || n != 0 && strings.HasPrefix(strings.TrimPrefix(number, "-"), "0.") {
			continue
		}
		if text := number + u.name; best == "" || len(text) < len(best) {
			best = text
		}
	}
	return best
}
