// Package openairesponses is OpenAI's Responses protocol,
// https://platform.openai.com/docs/api-reference/responses: POST /v1/responses,
// answered by one JSON body or by named server-sent events that end with
// response.completed, response.incomplete or response.failed. What it writes is
// also valid by the Open Responses schema, https://www.openresponses.org, with the
// item types that the schema does not know (custom_tool_call and hosted tools) as
// OpenAI has them.
//
// A conversation is a list of items here, not of messages. What follows of the
// assistant's items (reasoning, messages, calls) is one turn of the neutral
// model; the borders between its messages are kept in the member "item" of the
// first block's Ext.
//
// There is one way to read an answer and one to write it: a whole answer is read
// as a stream that has only its last event, and written as the snapshot that ends
// a stream. So the two forms cannot differ.
//
// A seal that another protocol has made is carried in the member extra_content:
// of the item for reasoning and calls, of the part for text. In streams it is on
// response.output_item.done and on the last snapshot, which is what SDKs keep.
package openairesponses
