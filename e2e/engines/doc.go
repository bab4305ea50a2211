// Package engines holds the gateway to a real inference engine, llama.cpp's
// llama-server, with real weights and with weights whose answer is known. The engine
// is one provider in each of Chat, Responses and Messages, and clients of these and Gemini
// ask it through the gateway. See README.md.
package engines
