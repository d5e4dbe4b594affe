package decorator

import ways "github.com/rvfloor/rvfloor/decorator/strategy"

type (
	// Verdict is what was seen of a property. The zero value is unsure, which counts as
	// unsafe.
	Verdict = ways.Verdict
	// Properties is what a backend was seen to do. See its Choose.
	Properties = ways.Properties
	// Property is one of Properties, under the name that metrics have for it.
	Property = ways.Property
	// Strategy is how a cache is brought to a floor.
	Strategy = ways.Name
)

const (
	// VerdictUnsure: it was not seen, or not often enough.
	VerdictUnsure = ways.VerdictUnsure
	// VerdictYes: the backend was seen to have the property.
	VerdictYes = ways.VerdictYes
	// VerdictNo: the backend was seen to lack it.
	VerdictNo = ways.VerdictNo
)
