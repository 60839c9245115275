package scenarios

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"
)

var (
	integerPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	numberPattern  = regexp.MustCompile(`^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)
)

// scan reads the text of a scalar into v, an addressable value of the field's type. It checks
// syntax and units, not the range. It does not accept 0 for auto, although 0 means auto in Go.
func (f *field) scan(text string, v reflect.Value) error {
	if f.auto && text == "auto" {
		v.SetZero()
		return nil
	}
	if err := f.scanPlain(text, v.Addr().Interface()); err != nil {
		return err
	}
	if f.auto && v.IsZero() {
		return fmt.Errorf("must be %s", f.allowed())
	}
	return nil
}

func (f *field) scanPlain(text string, to any) (err error) {
	switch to := to.(type) {
	case *string:
		*to = text
	case *bool:
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		*to = text == "true"
	case *int:
		if !integerPattern.MatchString(text) {
			return errors.New("must be a whole number in plain decimal")
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("must be a whole number of at most 64 bits")
		}
		*to = n
	case *uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || !integerPattern.MatchString(text) {
			return errors.New("must be a whole number from 0 to 18446744073709551615")
		}
		*to = n
	case *float64:
		n, err := strconv.ParseFloat(text, 64)
		if f.kind == kindPerSecond {
			n, err = parsePerSecond(text)
		} else if err != nil || !numberPattern.MatchString(text) {
			return errors.New("must be a plain number")
		}
		*to = n
		return err
	case *Bytes:
		*to, err = ParseBytes(text)
	case *BitsPerSecond:
		*to, err = ParseBitsPerSecond(text)
	case *time.Duration:
		*to, err = parseDuration(text)
	default:
		return errors.New("not a scalar")
	}
	return err
}

// format writes a scalar in a form that scan reads.
func (f *field) format(v reflect.Value) string {
	if f.auto && v.IsZero() {
		return "auto"
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
	case float64:
		if f.kind == kindPerSecond {
			return formatFloat(value) + "/s"
		}
		return formatFloat(value)
	default:
		return fmt.Sprint(value)
	}
}

// inRange reports whether the value is in the field's range; NaN never is.
func (f *field) inRange(v reflect.Value) bool {
	switch {
	case !f.lo.IsValid() || f.auto && v.IsZero():
		return true
	case v.CanFloat():
		return v.Float() >= f.lo.Float() && v.Float() <= f.hi.Float()
	default:
		return v.Int() >= f.lo.Int() && v.Int() <= f.hi.Int()
	}
}

// allowed describes the range in words.
func (f *field) allowed() string {
	if f.auto {
		return "auto or " + f.rangeText
	}
	return f.rangeText
}
