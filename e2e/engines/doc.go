// Package engines holds the gateway to a real inference engine, llama.cpp's
// llama-server, with real weights and with weights whose answer is known. The engine
// is one provider in each of the three dialects that it speaks, and clients of all four
// ask it through the gateway. See README.md.
package engines
