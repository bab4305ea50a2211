//go:build testunit

package llm

// taggedUnits has a unit with which a test follows an amount through the gateway.
var taggedUnits = [...]Unit{{Name: "test_unit", Key: "tu", Label: "Test unit", Piece: true}}

// TestUnit is the index of the unit in Units.
const TestUnit = UnitCount - 1
