//go:build !linux

package host

import "errors"

// CongestionControls is empty: labs need Linux.
func CongestionControls() []string { return nil }

// TryCongestionControl fails: labs need Linux.
func TryCongestionControl(string) error {
	return errors.New("labs run on Linux only; `netkvlab sim` runs here")
}

// AnyUsersCongestionControl is true: labs need Linux, so it does not matter here.
func AnyUsersCongestionControl(string) bool { return true }

func usableCPUs() func(int64) bool { return func(int64) bool { return true } }
