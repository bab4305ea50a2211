// A request as programs that send it to the client port. The key is in the environment.
import type { Dialect } from './answers';
import type { Request } from './dialects';

export type Language = 'curl' | 'Python' | 'Node' | 'Go';
export const languages: Language[] = ['curl', 'Python', 'Node', 'Go'];

// languagesFor returns the languages that have a program. AWS's SDKs send a key over HTTPS only.
export const languagesFor = (dialect: Dialect, url: string) => (dialect === 'converse' && !url.startsWith('https:') ? languages.filter((l) => l === 'curl' || l === 'Go') : languages);

const key = 'ISOGLOSS_KEY';

const headers: Record<Dialect, [string, string][]> = {
  'openai-chat': [['Authorization', 'Bearer KEY']],
  'openai-responses': [['Authorization', 'Bearer KEY']],
  anthropic: [['x-api-key', 'KEY'], ['anthropic-version', '2023-06-01']],
  gemini: [['x-goog-api-key', 'KEY']],
  converse: [['Authorization', 'Bearer KEY']],
};

const json = (v: unknown) => JSON.stringify(v, null, 2);

// python writes a value of JSON as Python.
function python(v: unknown, by = ''): string {
  const next = by + '    ';
  if (v === null || v === undefined) return 'None';
  if (typeof v === 'boolean') return v ? 'True' : 'False';
  if (typeof v !== 'object') return JSON.stringify(v);
  const list = Array.isArray(v) ? v.map((item) => python(item, next)) : members(v).map(([name, item]) => JSON.stringify(name) + ': ' + python(item, next));
  const [begin, end] = Array.isArray(v) ? '[]' : '{}';
  return list.length ? `${begin}\n${list.map((item) => next + item + ',\n').join('')}${by}${end}` : begin! + end!;
}

const members = (v: object) => Object.entries(v).filter(([, item]) => item !== undefined);
const keywords = (v: object) => members(v).map(([name, item]) => `    ${name}=${python(item, '    ')},\n`).join('');

// geminiCall returns the arguments of Google's SDKs, which have a form of their own.
function geminiCall({ path, body: { contents, generationConfig, ...rest } }: Request) {
  const model = decodeURIComponent(/models\/(.*):/.exec(path)?.[1] ?? '');
  return { model, contents, config: { ...rest, ...(generationConfig as object) } };
}

// converseCall returns the arguments of AWS's SDKs.
const converseCall = ({ path, body }: Request) => ({ modelId: decodeURIComponent(path.split('/')[2] ?? ''), ...body });

const streams = ({ path, body }: Request) => body.stream === true || /alt=sse|converse-stream$/.test(path);

function pythonSDK(dialect: Dialect, url: string, r: Request): string {
  const create = (imports: string, client: string, method: string, args: object) =>
    `import os\n${imports}\n\nclient = ${client}\nresponse = client.${method}(\n${keywords(args)})\n${streams(r) ? 'for event in response:\n    print(event)\n' : 'print(response)\n'}`;
  const env = `os.environ["${key}"]`;
  switch (dialect) {
    case 'openai-chat': return create('from openai import OpenAI', `OpenAI(base_url="${url}/v1", api_key=${env})`, 'chat.completions.create', r.body);
    case 'openai-responses': return create('from openai import OpenAI', `OpenAI(base_url="${url}/v1", api_key=${env})`, 'responses.create', r.body);
    case 'anthropic': return create('from anthropic import Anthropic', `Anthropic(base_url="${url}", api_key=${env})`, 'messages.create', r.body);
    case 'gemini': return create('from google import genai', `genai.Client(api_key=${env}, http_options={"base_url": "${url}"})`, streams(r) ? 'models.generate_content_stream' : 'models.generate_content', geminiCall(r));
    case 'converse': return `import base64\nimport os\n\nimport boto3\n\nos.environ["AWS_BEARER_TOKEN_BEDROCK"] = ${env}\nclient = boto3.client("bedrock-runtime", endpoint_url="${url}", region_name="us-east-1")\nresponse = client.${streams(r) ? 'converse_stream' : 'converse'}(\n${keywords(converseCall(r)).replace(/("bytes": )("[^"]*")/g, '$1base64.b64decode($2)')})\n${streams(r) ? 'for event in response["stream"]:\n    print(event)\n' : 'print(response["output"])\n'}`;
  }
}

function nodeSDK(dialect: Dialect, url: string, r: Request): string {
  const create = (imports: string, client: string, method: string, args: object) =>
    `${imports}\n\nconst client = ${client};\nconst response = await client.${method}(${json(args)});\n${streams(r) ? 'for await (const event of response) console.log(JSON.stringify(event));\n' : 'console.log(JSON.stringify(response));\n'}`;
  const env = 'process.env.' + key;
  switch (dialect) {
    case 'openai-chat': return create("import OpenAI from 'openai';", `new OpenAI({ baseURL: '${url}/v1', apiKey: ${env} })`, 'chat.completions.create', r.body);
    case 'openai-responses': return create("import OpenAI from 'openai';", `new OpenAI({ baseURL: '${url}/v1', apiKey: ${env} })`, 'responses.create', r.body);
    case 'anthropic': return create("import Anthropic from '@anthropic-ai/sdk';", `new Anthropic({ baseURL: '${url}', apiKey: ${env} })`, 'messages.create', r.body);
    case 'gemini': return create("import { GoogleGenAI } from '@google/genai';", `new GoogleGenAI({ apiKey: ${env}, httpOptions: { baseUrl: '${url}' } })`, streams(r) ? 'models.generateContentStream' : 'models.generateContent', geminiCall(r));
    case 'converse': {
      const command = streams(r) ? 'ConverseStreamCommand' : 'ConverseCommand';
      const args = json(converseCall(r)).replace(/("bytes": )("[^"]*")/g, "$1Buffer.from($2, 'base64')");
      return `import { BedrockRuntimeClient, ${command} } from '@aws-sdk/client-bedrock-runtime';\n\nconst client = new BedrockRuntimeClient({ endpoint: '${url}', region: 'us-east-1', token: { token: ${env} }, authSchemePreference: ['httpBearerAuth'] });\nconst response = await client.send(new ${command}(${args}));\n${streams(r) ? 'for await (const event of response.stream) console.log(JSON.stringify(event));\n' : 'console.log(JSON.stringify(response.output));\n'}`;
    }
  }
}

function goProgram(dialect: Dialect, url: string, r: Request): string {
  const set = headers[dialect].map(([name, value]) => `\treq.Header.Set("${name}", ${value.includes('KEY') ? (value === 'KEY' ? '' : `"${value.replace('KEY', '')}"+`) + `os.Getenv("${key}")` : `"${value}"`})\n`).join('');
  return `package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	body := ${JSON.stringify(JSON.stringify(r.body))}
	req, err := http.NewRequest(http.MethodPost, "${url + r.path}", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
${set}	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		log.Fatal(err)
	}
}
`;
}

// curl reads the body from the shell's input: an argument cannot hold an image.
function curl(dialect: Dialect, url: string, r: Request): string {
  const set = ['Content-Type: application/json', ...headers[dialect].map(([name, value]) => `${name}: ${value.replace('KEY', '$' + key)}`)];
  return `curl ${streams(r) ? '-N ' : ''}${dialect === 'converse' && streams(r) ? '--output - ' : ''}'${url + r.path}' \\
${set.map((line) => `  -H "${line}" \\
`).join('')}  --data-binary @- <<'JSON'
${json(r.body)}
JSON
`;
}

// snippet returns a program that sends the request.
export function snippet(language: Language, dialect: Dialect, url: string, r: Request): string {
  switch (language) {
    case 'curl': return curl(dialect, url, r);
    case 'Python': return pythonSDK(dialect, url, r);
    case 'Node': return nodeSDK(dialect, url, r);
    case 'Go': return goProgram(dialect, url, r);
  }
}
