// The model as it is now, as a file that facthold opens: the file that the page holds, with other weights and answers.

import { write } from "facthold/safetensors";

/** The bytes of the file. */
export function fileOf(model, table) {
  const { file } = model.task, changes = {};
  for (const [name, data] of Object.entries(model.weights)) changes[`model.${name}`] = { data };
  changes["problem.answers"] = { data: table.answers };
  // an edited fact has one answer; a list that is empty is kept, as the file has one
  if (file.arrays["problem.also"]) changes["problem.also"] = { data: table.also, shape: [table.also.length / 2, 2] };
  return write(file, changes);
}

/** Let the browser save it under this name. */
export function download(model, table, name = "edited.safetensors") {
  const link = document.createElement("a"), address = URL.createObjectURL(new Blob([fileOf(model, table)], { type: "application/octet-stream" }));
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
